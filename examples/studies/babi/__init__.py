"""bAbI: our test errors compared with published ones, task by task.

    python examples/studies/babi --recipe paper-pe --restarts 10

- `recipes.py`: model, arguments and training of each named recipe
- `training.py`: one run with a seed, on one task or on all tasks
- `command.py`: performs the missing runs; `../store.py` stores them
- `report.py`: the tables
- `published.py`: results reported in papers
"""
