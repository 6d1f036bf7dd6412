"""The DNC on the papers' tasks, compared with the NTM and an LSTM.

    python examples/studies/dnc copy --seeds 0 1 2 3 4 --out runs.jsonl

- `command.py`: performs the missing runs and writes the results
- `tasks.py`: each task's network, training and lessons; those of graphs are in
  `graph_tasks.py`, and common settings in `settings.py`
- `problems.py`: the algorithmic tasks and their scores
- `worlds.py`: block puzzles and bAbI with their scores
- `sequences.py`: bAbI stories word by word
- `curricula.py`: the lessons of the paper
- `walks.py`: graphs, the Underground and families with their scores
- `joint.py`: all bAbI tasks for one network, and `joint_tables.py`, its tables
- `networks.py`: a DNC, an NTM, or an LSTM with an equal number of weights
- `fresh.py`: batches of newly generated sequences
- `lessons.py`: scores each epoch and starts the next lesson
- `training.py`: trains a network on newly generated sequences
- `slots.py`: copies of networks with other numbers of slots
- `testing.py`: tests trained networks
- `checkpoints.py`: stores unfinished runs, so that they can resume
- `report.py`: text lines, JSON report and results page; its texts are in `texts.py`
  and `graph_texts.py`
"""
