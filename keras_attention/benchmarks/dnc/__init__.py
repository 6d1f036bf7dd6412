"""The DNC: what it learns on the papers' tasks, beside the NTM and an LSTM.

    python -m keras_attention.benchmarks dnc copy --seeds 0 1 2 3 4 --out runs.jsonl

- `command.py`: does the runs that are missing, and writes the results
- `tasks.py`: each task's network, training and lessons
- `problems.py`: what the algorithms ask, and how an answer is scored
- `worlds.py`: the same for graphs, block puzzles and bAbI
- `networks.py`: a DNC, an NTM, or an LSTM with as many weights
- `training.py`: trains a network on sequences that are drawn anew for each step
- `report.py`: lines, what JSON holds, and the page of results; its words: `texts.py`
"""
