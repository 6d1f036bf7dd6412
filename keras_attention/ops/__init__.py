"""The equations of attention, as pure functions of tensors on every backend."""

from keras_attention.numerics import axes, masks, normalizers
from keras_attention.ops import (
    activations,
    alignments,
    choices,
    fast_weights,
    halting,
    hashing,
    positions,
    ranking,
    scores,
    similarity,
    sinks,
)
from keras_attention.ops.attention import attend
from keras_attention.ops.fast_weights import delta_rule, linear_attention
from keras_attention.ops.heads import (
    attend_heads,
    dot_product_attention,
    ring_attention,
)
from keras_attention.ops.hopfield import energy, retrieval, streaming
from keras_attention.ops.memory import addressing, links
from keras_attention.ops.sequence import decoding, loop

binary_energy = energy  # the networks with neurons −1 and 1 are on the same page

__all__ = [
    "activations",
    "addressing",
    "alignments",
    "attend",
    "attend_heads",
    "axes",
    "binary_energy",
    "choices",
    "decoding",
    "delta_rule",
    "dot_product_attention",
    "energy",
    "fast_weights",
    "halting",
    "hashing",
    "linear_attention",
    "links",
    "loop",
    "masks",
    "normalizers",
    "positions",
    "ranking",
    "retrieval",
    "ring_attention",
    "scores",
    "similarity",
    "sinks",
    "streaming",
]
__dir__ = __all__.copy
