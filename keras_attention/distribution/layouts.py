"""Layouts of the weights of a model over devices, and what they do to a model.

Names of layers do not decide which axes of a weight are split: a path such as
"query/kernel" says neither the rank of a weight nor which of its axes holds the heads.
The type of its layer and its role there decide.

Letters of shapes: D width, H heads, E width of a head.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras

from keras_attention import kernels, layers, models
from keras_attention.layers.external_memory.memory_cell import MemoryCell
from keras_attention.layers.transformer.blocks import Block

# The axes to split, in the order of preference, by the name of a weight. If the mesh
# divides none of them, the weight stays whole. A weight that is not listed stays whole.
Roles = dict[str, tuple[int, ...]]

OUTPUTS: Roles = {"kernel": (-1, 0), "bias": (-1,)}  # split the units of a layer
INPUTS: Roles = {"kernel": (0, -1)}  # split its inputs; each device adds a whole bias
ROWS: Roles = {"embeddings": (0, 1), "reverse_embeddings": (1, 0)}
WIDTH: Roles = {"embeddings": (1, 0), "reverse_embeddings": (0, 1)}
CELL: Roles = {**OUTPUTS, "recurrent_kernel": (-1, 0)}
UNITS: Roles = {"kernel": (-1,), "scale": (-1,), "coverage": (-1,)}

BY_TYPE: list[tuple[Any, Roles]] = [
    (keras.layers.Embedding, ROWS),
    (
        (
            keras.layers.Dense,
            keras.layers.EinsumDense,
            keras.layers.Conv1D,
            keras.layers.Conv2D,
            keras.layers.Conv3D,
        ),
        OUTPUTS,
    ),
    ((keras.layers.GRUCell, keras.layers.LSTMCell, keras.layers.SimpleRNNCell), CELL),
    ((layers.AdditiveScore, layers.ConcatScore, layers.BahdanauAttention), UNITS),
    (layers.HopfieldLayer, {"patterns": (0, 1), "values": (0, 1)}),
    ((layers.HopfieldPooling, layers.AttentionPooling), {"queries": (0, 1)}),
]
# Layers whose projections have heads. Keras' layers and ours name the sublayers alike.
HEADS = (
    layers.MultiHeadAttention,
    layers.Hopfield,
    keras.layers.MultiHeadAttention,
    keras.layers.GroupQueryAttention,
)
# Layers and models whose tables, of words or of ages, are split by their width
SPLIT_BY_WIDTH = (
    layers.DepthRecurrence,
    layers.SentenceEncoder,
    models.KeyValueMemNN,
    models.MemN2N,
    models.MemNN,
)


def layout_map(
    model: keras.layers.Layer,
    device_mesh: keras.distribution.DeviceMesh,
    model_axis: str = "model",
    batch_axis: str = "batch",
) -> keras.distribution.LayoutMap:
    """Returns a layout of the weights of a model over an axis of a mesh of devices.

    - Transformers, as in Megatron-LM: the projections of attention by heads, the MLP by
      its inner width.
    - Embeddings by rows; in memory networks by their width.
    - Recurrent cells by gates and units, the interface of a DNC by the units that it
      reads.
    - The stored patterns of a `HopfieldLayer` by rows.
    - Other dense layers and convolutions by units.

    If the size of the axis does not divide such an axis of a weight, another axis of
    the weight is split, or the weight stays whole. Heads are never split: their number
    must be 1 or a multiple of the axis' size. Heads of keys and values that are fewer
    than the heads of queries may stay whole.

    Weights with the same path, as two models in a model can have, share an entry. They
    stay whole if their layouts differ. The map has no entries for the weights of layers
    with other types, so these weights stay whole. You may add entries for them.

    Args:
        model: a built model or layer. It may contain layers of this package anywhere.
        device_mesh: a `keras.distribution.DeviceMesh`.
        model_axis: the name of the axis of the mesh over which weights are split.
        batch_axis: the name of the axis over which batches are split.

    Returns:
        A `keras.distribution.LayoutMap`, for `keras.distribution.ModelParallel`. Its
        keys are the paths of the weights.

    Raises:
        RuntimeError: if the backend is not JAX.
        ValueError: for an axis that the mesh does not have, a model that is not built,
            heads that the mesh does not divide, and a model without a weight to split.

    Example:

    ```python
    mesh = keras.distribution.DeviceMesh((2, 4), ("batch", "model"))
    layout = layout_map(model, mesh)
    parallel = keras.distribution.ModelParallel(layout_map=layout)
    keras.distribution.set_distribution(parallel)
    distribute(model)
    ```

    Reference:
        Shoeybi et al., "Megatron-LM: training multi-billion parameter language models
        using model parallelism" (2019).
    """
    kernels.check_distribution()
    sizes = _axis_sizes(device_mesh)
    for name, axis in (("model_axis", model_axis), ("batch_axis", batch_axis)):
        if axis not in sizes:
            raise ValueError(
                f"`{name}` must be an axis of `device_mesh`, one of {list(sizes)}. "
                f"Received: {name}={axis!r}"
            )
    if model_axis == batch_axis:
        raise ValueError(
            "`model_axis` and `batch_axis` must be different axes of `device_mesh`. "
            f"Received: model_axis={model_axis!r}, batch_axis={batch_axis!r}"
        )
    _check_built(model)
    splits: dict[str, tuple] = {}
    size = sizes[model_axis]
    for variable, roles in _weights_and_roles(model, model_axis, size):
        axes = _split_axes(variable, roles, model_axis, size)
        # Weights of two models in a model can have the same path.
        splits[variable.path] = axes if splits.get(variable.path, axes) == axes else ()
    if not any(map(any, splits.values())):
        raise ValueError(
            "`model` must have a weight that the mesh divides, in a layer of a known "
            f"type. Received: model={model.name!r} with the weights "
            f"{_some(f'{v.path} {tuple(v.shape)}' for v in model.weights)}, "
            f"model_axis={model_axis!r} of size {size}"
        )
    layout = keras.distribution.LayoutMap(device_mesh)
    for path, axes in splits.items():
        layout[re.escape(path)] = axes  # keys are regular expressions
    return layout


def distribute(model: keras.Model) -> keras.Model:
    """Moves an existing model to the devices of the current distribution.

    Keras places a weight when it creates the weight. This function places the weights
    of a model that was built or loaded before `keras.distribution.set_distribution`,
    and the variables of its optimizer and of its metrics.

    Args:
        model: a built model.

    Returns:
        The model.

    Raises:
        RuntimeError: if the backend is not JAX, or if no distribution is set.
        ValueError: if the model is not built.
    """
    kernels.check_distribution()
    current = keras.distribution.distribution()
    if current is None:
        raise RuntimeError(
            "`distribute` needs a distribution. Call "
            "`keras.distribution.set_distribution` first, for example with "
            "`keras.distribution.DataParallel()`."
        )
    _check_built(model)
    layouts = {}
    for variable in model.variables:
        layout = current.get_variable_layout(variable)
        layouts[variable.path.replace("/", "_"), tuple(variable.shape)] = layout
        kernels.place(variable, layout)
    optimizer = getattr(model, "optimizer", None)
    for variable in optimizer.variables if optimizer else ():
        # An optimizer names its variables after the path of a weight.
        keys = [
            (name, shape)
            for name, shape in layouts
            if shape == tuple(variable.shape) and variable.name.startswith(name + "_")
        ]
        layout = layouts[max(keys, key=lambda key: len(key[0]))] if keys else None
        kernels.place(variable, layout or current.get_variable_layout(variable))
    for variable in getattr(model, "metrics_variables", ()):
        kernels.place(variable, current.get_variable_layout(variable))
    for step in ("train_function", "test_function", "predict_function"):
        if hasattr(model, step):  # compiled for the devices used so far
            setattr(model, step, None)
    return model


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
            lines.append(f"Keys that match no weight: {_some(self.unused)}")
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
    _check_built(model)
    if not isinstance(layout, keras.distribution.LayoutMap):
        raise ValueError(
            "`layout` must be a keras.distribution.LayoutMap, such as `layout_map` "
            f"returns. Received: layout={layout!r}"
        )
    sizes = _axis_sizes(layout.device_mesh)
    first = next(iter(sizes))
    if batch_size is not None and batch_size % sizes[first]:
        raise ValueError(
            f"`batch_size` must be a multiple of the size of the axis {first!r} of the "
            f"mesh. Received: batch_size={batch_size}, sizes of the axes={sizes}"
        )
    entries = [layout[variable.path] for variable in model.weights]
    weights = [
        _placement(variable, () if entry is None else entry.axes, sizes)
        for variable, entry in zip(model.weights, entries)
    ]
    paths = [weight.path for weight in weights]
    if all(entry is None for entry in entries):
        raise ValueError(
            "`layout` must match a weight of `model`. Received: layout with the keys "
            f"{_some(layout)}, model={model.name!r} with the weights {_some(paths)}"
        )
    unused = [
        key
        for key in layout
        if key not in paths and not any(re.fullmatch(key, path) for path in paths)
    ]
    is_placed = all(
        kernels.bytes_held(variable) == weight.size_per_device
        for variable, weight in zip(model.weights, weights)
    )
    return Report(weights, unused, is_placed)


def _weights_and_roles(
    model: keras.layers.Layer, axis: str, size: int
) -> Iterator[tuple[Any, Roles]]:
    """Yields each weight in a layer of a known type, with the roles in its layer."""
    every = list(model._flatten_layers())
    roles = {
        id(layer): next((r for types, r in BY_TYPE if isinstance(layer, types)), None)
        for layer in every
    }
    for layer in every:
        for part, changed in _roles_by_holder(layer, axis, size):
            roles[id(part)] = changed
    for layer in every:
        known = roles.get(id(layer))
        if known is not None:
            inner = layer._flatten_layers(include_self=False, recursive=False)
            others = {id(v) for part in inner for v in part.weights}
            for variable in layer.weights:
                if id(variable) not in others:
                    yield variable, known


def _roles_by_holder(
    layer: keras.layers.Layer, axis: str, size: int
) -> Iterator[tuple[keras.layers.Layer, Roles]]:
    """Yields the sublayers whose roles depend on the layer that holds them."""
    if isinstance(layer, HEADS):
        yield from _head_roles(layer, axis, size)
    elif isinstance(layer, Block):
        yield layer.feedforward_out, INPUTS
    elif isinstance(layer, MemoryCell):
        yield layer.interface, INPUTS
    elif isinstance(layer, layers.RelativePositionBias):
        yield layer.embedding, WIDTH  # a row per bucket, a column per head
    elif isinstance(layer, SPLIT_BY_WIDTH):
        for part in layer._flatten_layers():
            if isinstance(part, keras.layers.Embedding):
                yield part, WIDTH


def _head_roles(
    layer: Any, axis: str, size: int
) -> Iterator[tuple[keras.layers.Layer, Roles]]:
    """Yields the projections of a layer with heads, and the layer."""
    grouped = isinstance(layer, keras.layers.GroupQueryAttention)
    heads = layer.num_query_heads if grouped else layer.num_heads
    if heads > 1 and heads % size:
        raise ValueError(
            "The number of heads must be 1 or a multiple of the size of the axis "
            f"{axis!r} of the mesh. Received: {heads} heads in the layer "
            f"{layer.path!r}, {axis!r} of size {size}"
        )
    # Kernels are (D, H, E) and (H, E, D), biases (H, E) and (D,).
    split = -2 if heads > 1 else -1
    into: Roles = {"kernel": (split, 0), "bias": (split,)}
    if heads > 1:
        yield layer, {"attention_sinks": (0,), "log_beta": (0,)}
    for part in layer._flatten_layers(include_self=False, recursive=False):
        if part.name in ("query", "key", "value", "gate"):
            yield part, into
        elif part.name == "attention_output":
            yield part, {"kernel": (0,) if heads > 1 else (1, 2)}


def _split_axes(variable: Any, roles: Roles, axis: str, size: int) -> tuple:
    """Returns the layout of a weight: the first axis of its role that divides."""
    rank = len(variable.shape)
    for index in roles.get(variable.name, ()):
        if -rank <= index < rank and variable.shape[index] % size == 0:
            axes: list[str | None] = [None] * rank
            axes[index] = axis
            return tuple(axes)
    return ()


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
    whole = math.prod(shape) * variable.value.dtype.itemsize
    parts = math.prod(sizes[axis] for axis in axes if axis is not None)
    return Placement(variable.path, shape, axes, whole, whole // parts)


def _axis_sizes(mesh: Any) -> dict[str, int]:
    """Returns the size of each axis of a mesh."""
    if not isinstance(mesh, keras.distribution.DeviceMesh):
        raise ValueError(
            "`device_mesh` must be a keras.distribution.DeviceMesh. "
            f"Received: device_mesh={mesh!r}"
        )
    return dict(zip(mesh.axis_names, mesh.shape, strict=True))


def _check_built(model: Any) -> None:
    """Raises a ValueError if a model has no weights yet."""
    if not isinstance(model, keras.layers.Layer):
        raise ValueError(f"`model` must be a Keras model. Received: model={model!r}")
    if not model.built or not model.weights:
        raise ValueError(
            "`model` must be built and have weights. Call it on a batch, or call "
            f"`build`. Received: model={model.name!r}, built={model.built}, "
            f"{len(model.weights)} weights"
        )


def _some(names: Any, count: int = 3) -> str:
    """Returns the first names of many, as text."""
    texts = [str(name) for name in names]
    others = f" and {len(texts) - count} more" if len(texts) > count else ""
    return f"{texts[:count]}{others}"
