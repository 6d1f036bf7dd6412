"""MemNN: errors on bAbI and in the simulated world, and hashing of a large memory.

    python -m keras_attention.benchmarks memnn --json memnn.json

- `command.py`: does the runs that are missing, and writes the results
- `tasks.py`: one run: a task of bAbI, or a model in a simulated world
- `training.py`: trains a MemNN and counts its errors
- `readers.py`: an RNN and an LSTM that read a story word by word
- `hashing.py`: a memory of very many facts
- `report.py`: lines, tables, and what JSON holds
"""
