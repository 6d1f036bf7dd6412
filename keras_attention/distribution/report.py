"""Reports how a layout splits the weights of a model."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras

from keras_attention import kernels
from keras_attention.distribution.layouts import axis_sizes, check_built, some


class Placement(NamedTuple):
    """How a weight is split.

    Attributes:
        path: the path of the weight.
        shape: its shape.
        axes: for each axis of the weight, the axis of the mesh, or None.
        size: the bytes of the whole weight.
        size_per_device: the bytes on a device, according to the layout.
    """

    path: str
    shape: tuple[int, ...]
    axes: tuple[str | None, ...]
    size: int
    size_per_device: int


@dataclass(frozen=True)
class Report:
    """What `check` finds. `print(report)` shows a table.

    Attributes:
        weights: a `Placement` for each weight.
        unused: the keys of the layout that match no weight.
        placed: whether the weights are on their devices, as the layout says. If not,
            `distribute` moves them.
    """

    weights: list[Placement]
    unused: list[str]
    placed: bool

    @property
    def size(self) -> int:
        """The bytes of all weights."""
        return sum(weight.size for weight in self.weights)

    @property
    def size_per_device(self) -> int:
        """The bytes of all weights on a device."""
        return sum(weight.size_per_device for weight in self.weights)

    def __str__(self) -> str:
        rows = [
            (w.path, str(w.shape), str(w.axes) if any(w.axes) else "whole")
            for w in self.weights
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            f"{'  '.join(map(str.ljust, row, widths))}  {weight.size_per_device:>13,}"
            for row, weight in zip(rows, self.weights, strict=True)
        ]
        share = self.size_per_device / max(self.size, 1)
        lines.append(
            f"{self.size_per_device:,} bytes of weights a device, "
            f"{share:.3f} of all {self.size:,}"
        )
        if self.unused:
            lines.append(f"Keys that match no weight: {some(self.unused)}")
        if not self.placed:
            lines.append("The weights are not placed so yet: see `distribute`.")
        return "\n".join(lines)


def check(
    model: keras.layers.Layer,
    layout: keras.distribution.LayoutMap,
    batch_size: int | None = None,
) -> Report:
    """Reports how a layout splits the weights of a model, and checks that it can.

    Args:
        model: a built model or layer.
        layout: a `keras.distribution.LayoutMap` of `layout_map`, or one of your own.
        batch_size: the number of samples in a batch, over all devices. The first axis
            of the mesh must divide it.

    Returns:
        A `Report`. `print(check(model, layout))` shows the axes of each weight and the
        bytes on a device.

    Raises:
        RuntimeError: if the backend is not JAX.
        ValueError: if the model is not built, the layout has no mesh, the layout
            matches no weight, a layout does not fit the shape of a weight, or the mesh
            does not divide the batch.
    """
    kernels.check_distribution()
    check_built(model)
    if not isinstance(layout, keras.distribution.LayoutMap):
        raise ValueError(
            "`layout` must be a keras.distribution.LayoutMap, such as `layout_map` "
            f"returns. Received: layout={layout!r}"
        )
    sizes = axis_sizes(layout.device_mesh)
    first = next(iter(sizes))
    if batch_size is not None and batch_size % sizes[first]:
        raise ValueError(
            f"`batch_size` must be a multiple of the size of the axis {first!r} of the "
            f"mesh. Received: batch_size={batch_size}, sizes of the axes={sizes}"
        )
    weights, is_placed, is_matched = [], True, False
    for variable in model.weights:
        entry = layout[variable.path]
        is_matched = is_matched or entry is not None
        axes = () if entry is None else entry.axes
        placement = _placement(variable, axes, sizes)
        weights.append(placement)
        held = kernels.bytes_held(variable)
        is_placed = is_placed and held == placement.size_per_device
    paths = [weight.path for weight in weights]
    if not is_matched:
        raise ValueError(
            "`layout` must match a weight of `model`. Received: layout with the keys "
            f"{some(layout)}, model={model.name!r} with the weights {some(paths)}"
        )
    unused = [
        key
        for key in layout
        if key not in paths and not any(re.fullmatch(key, path) for path in paths)
    ]
    return Report(weights, unused, is_placed)


def _placement(variable: Any, axes: tuple, sizes: dict[str, int]) -> Placement:
    """Returns how axes of a mesh split a weight, or raises a ValueError."""
    shape = tuple(variable.shape)
    if len(axes) > len(shape):
        raise ValueError(
            "A layout must have at most as many axes as the weight. Received: "
            f"layout={axes} for {variable.path} of shape {shape}"
        )
    axes = (*axes, *[None] * (len(shape) - len(axes)))
    for length, axis in zip(shape, axes, strict=True):
        if axis is not None and length % sizes[axis]:
            raise ValueError(
                f"The size of the axis {axis!r} of the mesh must divide the axis of "
                f"the weight that it splits. Received: layout={axes} for "
                f"{variable.path} of shape {shape}, sizes of the axes={sizes}"
            )
    whole = math.prod(shape) * _bytes_of(variable.dtype)
    parts = math.prod(sizes[axis] for axis in axes if axis is not None)
    return Placement(variable.path, shape, axes, whole, whole // parts)


def _bytes_of(dtype: str) -> int:
    bits = re.search(r"\d+", dtype)
    return 1 if bits is None else max(1, int(bits.group()) // 8)
