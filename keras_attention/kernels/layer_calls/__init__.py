"""Calls of Keras layers without the overhead of `__call__`."""
