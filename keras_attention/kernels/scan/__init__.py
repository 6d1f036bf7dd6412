"""A step function over a sequence."""
