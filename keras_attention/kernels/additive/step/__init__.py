"""The additive score of one query at a time."""
