"""HopfieldClassifier on bags: Tiger and Elephant, bit patterns, latch sequences.

    python examples/studies/bags --json bags.json

- `command.py`: performs the missing runs and writes the results
- `nested.py`: the cross-validation protocol
- `training.py`: training of many networks at once
- `made.py`: bit patterns and latch sequences
- `report.py`: text lines, a table and the JSON report
"""
