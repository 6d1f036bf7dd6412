"""Which axes of a weight to split, by the type of its layer and its role there.

Names of layers do not decide: a path such as "query/kernel" says neither the rank of a
weight nor which of its axes holds the heads.

Letters of shapes: D width, H heads, E width of a head.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

from keras_attention import layers, models
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


def weights_and_roles(
    model: keras.layers.Layer, axis: str, size: int
) -> Iterator[tuple[Any, Roles]]:
    """Yields each weight in a layer of a known type, with the roles in its layer."""
    every = list(model._flatten_layers())
    roles = {id(layer): _roles_of(layer) for layer in every}
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


def _roles_of(layer: keras.layers.Layer) -> Roles | None:
    """Returns the roles of a layer's own weights by its type, or None."""
    for types, roles in BY_TYPE:
        if isinstance(layer, types):
            return roles
    return None


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


def split_axes(variable: Any, roles: Roles, axis: str, size: int) -> tuple:
    """Returns the layout of a weight: the first axis of its role that divides."""
    rank = len(variable.shape)
    for index in roles.get(variable.name, ()):
        if -rank <= index < rank and variable.shape[index] % size == 0:
            axes: list[str | None] = [None] * rank
            axes[index] = axis
            return tuple(axes)
    return ()
