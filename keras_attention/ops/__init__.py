"""The mathematics of attention: pure functions of tensors, on every backend."""

from keras_attention.ops import (
    axes,
    energy,
    hashing,
    masks,
    normalizers,
    positions,
    retrieval,
    scores,
    similarity,
)
from keras_attention.ops.attention import attend, attend_heads, dot_product_attention

__all__ = [
    "attend",
    "attend_heads",
    "axes",
    "dot_product_attention",
    "energy",
    "hashing",
    "masks",
    "normalizers",
    "positions",
    "retrieval",
    "scores",
    "similarity",
]
