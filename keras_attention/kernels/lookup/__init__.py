"""Softmax attention over a table without storing all scores."""
