"""Models: `keras.Model` subclasses put together from layers."""

from keras_attention.models.memn2n import MemN2N

__all__ = ["MemN2N"]
