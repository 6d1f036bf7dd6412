"""Nine models on five tasks, with equal numbers of weights and equal CPU time.

- `tasks.py`: the five tasks, as stories of facts with a question.
- `models.py`: one network per model family, with a given number of weights.
- `training.py`: trains and tests one network within its CPU time.
- `command.py`: the command line; `report.py` and `texts.py`: the results page.
"""
