"""bAbI: our test errors beside the published ones, task by task.

    python -m keras_attention.benchmarks babi --recipe paper-pe --restarts 10

- `recipes.py`: which model, with what arguments, trained how; by name
- `training.py`: one run: a seed, a task or all of them together
- `command.py`: does the runs that are missing; `../store.py` keeps them
- `report.py`: the tables
- `published.py`: what papers report
"""
