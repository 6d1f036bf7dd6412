"""Loops over sequences, and decoding with early stopping."""

from keras_attention.ops.sequence import decoding, loop

__all__ = ["decoding", "loop"]
