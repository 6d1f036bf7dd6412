"""Placement of weights on the devices of a mesh on JAX."""

from __future__ import annotations

from typing import Any

SPLITS_TENSORS = True


def check_distribution() -> None:
    """Accepts: `keras.distribution` splits weights on JAX."""


def place(variable: Any, layout: Any) -> None:
    """Moves a variable to a `TensorLayout`, and keeps it there when it is assigned to.

    Keras reads the layout of a variable only when it creates the variable. Optimizers
    copy this attribute to the variables that belong to a weight. It has no public name.
    """
    variable._layout = layout
    variable.assign(variable.value)


def bytes_held(variable: Any) -> int:
    """Returns the most bytes of a variable that a device of this process holds."""
    return max(shard.data.nbytes for shard in variable.value.addressable_shards)
