"""Scans of a step function over a sequence."""
