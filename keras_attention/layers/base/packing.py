"""Packs recurrent state into Keras' structures, and moves the time axis.

Shapes: B batch, T steps, S keys, U units, V width of a value, A width of the
attentional vector.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.numerics import masks

Tensor = Any


def packed(structure: Any, flat: list[Tensor]) -> Any:
    """Packs the tensors `flat` into the structure and dtypes of `structure`."""
    like = keras.tree.flatten(structure)
    flat = [ops.cast(x, y.dtype) for x, y in zip(flat, like)]
    return keras.tree.pack_sequence_as(structure, flat)


def time_swapped(structure: Any) -> Any:
    """Swaps the first two axes, batch and time, of each tensor."""
    return keras.tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), structure)


def last(outputs: Tensor, mask: Tensor | None) -> Tensor:
    """Returns the output (B, ·) of the last unmasked step."""
    if mask is None:
        return outputs[:, -1]
    steps = masks.positions(ops.shape(outputs)[1])
    place = ops.max(ops.where(mask, steps, 0), axis=1)  # (B,)
    return ops.take_along_axis(outputs, place[:, None, None], axis=1)[:, 0]
