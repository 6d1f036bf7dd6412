"""Multi-query associative recall (MQAR): which memory holds how many pairs?

- `sequences.py`: the task.
- `models.py`: one network for each kind of memory, with equal numbers of weights.
- `training.py`: trains and tests one network within its CPU time.
- `command.py`: the command line; `report.py` and `picture.py`: the results page.
"""
