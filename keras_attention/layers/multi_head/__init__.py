"""Multi-head attention, its cache, and conversions from Keras and torch."""

from keras_attention.layers.multi_head.multi_head_attention import MultiHeadAttention

__all__ = ["MultiHeadAttention"]
