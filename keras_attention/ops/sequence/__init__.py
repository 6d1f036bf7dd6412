"""A step function over a sequence, and decoding, which stops early."""

from keras_attention.ops.sequence import decoding, loop

__all__ = ["decoding", "loop"]
