"""Softmax attention over a table, without all scores at once."""
