"""Normalizers, which turn scores into weights and apply the masks.

Defined in :mod:`keras_attention.numerics.normalizers`.
"""

from keras_attention.numerics.normalizers import (
    KNOWN,
    Normalizer,
    entmax15,
    get,
    hardmax,
    linear,
    null_softmax,
    sink_softmax,
    softmax,
    softmax1,
    sparsemax,
)

__all__ = [
    "KNOWN",
    "Normalizer",
    "entmax15",
    "get",
    "hardmax",
    "linear",
    "null_softmax",
    "sink_softmax",
    "softmax",
    "softmax1",
    "sparsemax",
]
