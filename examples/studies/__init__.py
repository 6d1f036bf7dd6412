"""Studies: trainings to the figures of papers, comparisons and their reports.

Run one with `python examples/studies/TOPIC`; `--help` lists its options.
"""
