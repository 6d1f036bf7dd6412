"""MemNN: errors on bAbI and the simulated world, and hashing of a large memory.

    python examples/studies/memnn --json memnn.json

- `command.py`: performs the missing runs and writes the results
- `tasks.py`: one run: a bAbI task, or a model in a simulated world
- `training.py`: trains a MemNN and measures its errors
- `readers.py`: an RNN and an LSTM that read stories word by word
- `new_names.py`: names, rooms and objects that were never trained on
- `sentences.py`: responses in whole sentences, by a recurrent network
- `hashing.py`: a memory with very many facts
- `large.py`: a memory with millions of facts on the disk, with `large_world.py` and
  `large_training.py`
- `real.py`: a memory of real triples, and facts appended to it
- `report.py`: text lines, tables and the JSON report
"""
