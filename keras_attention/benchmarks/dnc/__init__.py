"""The DNC on the papers' tasks, compared with the NTM and an LSTM.

    python -m keras_attention.benchmarks dnc copy --seeds 0 1 2 3 4 --out runs.jsonl

- `command.py`: performs the missing runs and writes the results
- `tasks.py`: each task's network, training and lessons
- `problems.py`: the algorithmic tasks and their scores
- `worlds.py`: graphs, block puzzles and bAbI with their scores
- `networks.py`: a DNC, an NTM, or an LSTM with an equal number of weights
- `fresh.py`: batches of newly generated sequences
- `training.py`: trains a network on newly generated sequences
- `checkpoints.py`: stores unfinished runs, so that they can resume
- `report.py`: text lines, JSON report and results page; its texts are in `texts.py`
"""
