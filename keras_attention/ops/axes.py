"""Folding and unfolding of axes, for attention over any axes of an input.

Defined in :mod:`keras_attention.numerics.axes`.
"""

from keras_attention.numerics.axes import (
    Axes,
    check_mask,
    fold,
    fold_mask,
    fold_sequence_mask,
    free,
    full_bias,
    grouped_matmul,
    resolve,
    unfold,
    weights_shape,
)

__all__ = [
    "Axes",
    "check_mask",
    "fold",
    "fold_mask",
    "fold_sequence_mask",
    "free",
    "full_bias",
    "grouped_matmul",
    "resolve",
    "unfold",
    "weights_shape",
]
