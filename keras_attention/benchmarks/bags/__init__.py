"""HopfieldClassifier on bags: Tiger and Elephant, bit patterns, latch sequences.

    python -m keras_attention.benchmarks bags --json bags.json

- `command.py`: does the runs that are missing, and writes the results
- `nested.py`: the protocol of the cross-validation
- `training.py`: many networks trained at once
- `made.py`: bit patterns and latch sequences
- `report.py`: lines, a table, and what JSON holds
"""
