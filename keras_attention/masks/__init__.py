"""Masks as objects, which layers evaluate without an array of all queries and keys.

    Causal() & Window(128) & Segments(ids)
    Causal() | Prefix(n)

Objects are accepted wherever an `attention_mask` is. `&` allows a pair of a query and a
key if both masks allow it, `|` if one of them does.
"""

from keras_attention import kernels
from keras_attention.numerics import mask_objects
from keras_attention.numerics.mask_objects import Causal, Mask, Prefix, Segments, Window

__all__ = ["Causal", "Mask", "Prefix", "Segments", "Window"]
__dir__ = __all__.copy

for _cls in (Causal, Prefix, Segments, Window, mask_objects.Array, mask_objects.Joined):
    kernels.register_structure(_cls)
