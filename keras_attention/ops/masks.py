"""Masks that say which query may attend to which key.

Defined in :mod:`keras_attention.numerics.masks`.
"""

from keras_attention.numerics.masks import (
    attention_mask,
    causal,
    check,
    check_boolean,
    merge,
    near,
    padding,
    positions,
    sliding_window,
)

__all__ = [
    "attention_mask",
    "causal",
    "check",
    "check_boolean",
    "merge",
    "near",
    "padding",
    "positions",
    "sliding_window",
]
