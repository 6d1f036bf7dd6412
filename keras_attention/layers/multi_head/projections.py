"""The projections of attention with heads, held by `MultiHeadAttention` and `Hopfield`.

Shapes: B batch, T queries, S keys, Dq, Dk, D widths, V width of a value, H heads, G
heads of keys and values, E width of a head.
"""

from __future__ import annotations

from functools import partial
from numbers import Integral
from operator import attrgetter
from string import ascii_lowercase
from typing import Any

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base import sampling
from keras_attention.layers.base.attention_layer import Prepared, cache_length
from keras_attention.layers.base.checked import (
    MASK_NAMES,
    Masks,
    as_boolean,
    call_arguments,
    check_call,
    check_inputs,
    check_order,
    check_usable,
    with_time,
)
from keras_attention.numerics import axes as folding
from keras_attention.numerics import masks
from keras_attention.ops.heads import hide_queries

Tensor = Any

NORMS: dict[Any, Any] = {
    "rms": partial(keras.layers.RMSNormalization, epsilon=1e-6),
    "layer": partial(keras.layers.LayerNormalization, epsilon=1e-6, center=False),
}


class Projections:
    """Projects inputs to heads, and heads to the output.

    A plain object. Its parts are attributes of the layer, with their names in Keras'
    layer: Keras tracks and saves them. They are read at each call, since users replace
    them, for example to adapt a trained layer.
    """

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def queries(self, query: Tensor) -> Tensor:
        """Returns the queries of the heads, (B, ..., H, E)."""
        q, norm = kernels.dense(self.layer._query_dense, query), self.layer._query_norm
        return q if norm is None else kernels.normalize(norm, q)

    def keys(self, key: Tensor) -> Tensor:
        """Returns the keys of the heads, (B, ..., G, E)."""
        k, norm = kernels.dense(self.layer._key_dense, key), self.layer._key_norm
        return k if norm is None else kernels.normalize(norm, k)

    def values(self, value: Tensor) -> Tensor:
        """Returns the values of the heads, (B, ..., G, V)."""
        return kernels.dense(self.layer._value_dense, value)

    def output(self, heads: Tensor, query: Tensor) -> Tensor:
        """Applies the gate and the last projection to the heads (B, ..., H, V)."""
        if self.layer._gate_dense is not None:
            heads = heads * self.layer._gate_dense(query)
        return kernels.dense(self.layer._output_dense, heads)

    def finish(
        self,
        heads: Tensor,
        weights: Tensor | None,
        query: Tensor,
        key: Tensor,
        query_mask: Tensor | None,
        axes: folding.Axes,
        single: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the output and the weights of a call, from those of the heads.

        Masked queries get 0 from each head. The heads (B, T, H, V) and the weights
        (B, H, T, S) get the axes of the query (B, ..., Dq) and the key (B, ..., Dk);
        with `single`, they lose the T axis.
        """
        if query_mask is not None:
            heads, weights = hide_queries(query_mask, heads, weights)
        if len(query.shape) > 3:
            shape = ops.shape(query)
            if weights is not None:
                full = shape, ops.shape(key), heads.shape[2], axes
                weights = ops.reshape(weights, folding.weights_shape(*full))
            heads = folding.unfold(heads, shape, axes)  # (B, ..., H, V)
        output = self.output(heads, query)
        if single:
            output = ops.squeeze(output, axis=1)
            weights = None if weights is None else ops.squeeze(weights, axis=-2)
        return output, weights


def build_projections(
    layer: Any, query: tuple, value: Any = None, key: Any = None
) -> None:
    """Builds the projections of a layer, with the names and the order of Keras' layer.

    Random initializers draw seeds in Keras' order, too.

    Args:
        layer: a layer with the sizes of its heads, whose methods `_make_dense(rank,
            width, name)` and `_make_last(shape)` return projections.
        query: the shape of the query, (B, ..., Dq).
        value: the shape of the value; None builds only the projection of the queries.
        key: the shape of the key.
    """
    heads, groups = layer.num_heads, layer.num_key_value_heads
    parts = [("query", query, heads), ("key", key, groups), ("value", value, groups)]
    if getattr(layer, "use_gate", False):
        parts.insert(2, ("gate", query, heads))
    for name, shape, count in parts if value else parts[:1]:
        width = layer.key_dim if name in ("query", "key") else layer.value_dim
        activation = {"activation": "sigmoid"} if name == "gate" else {}
        dense = layer._make_dense(len(shape), (count, width), name, **activation)
        setattr(layer, f"_{name}_dense", dense)
        dense.build(shape)
        # The einsum of a backend would repeat inputs of width 1.
        dense.input_spec = keras.layers.InputSpec(ndim=len(shape), axes={-1: shape[-1]})
    if value is None:
        return
    layer._output_dense = layer._make_last(query)
    layer._output_dense.build((*query[:-1], heads, layer.value_dim))
    if layer.query_key_normalization is not None:
        for name in ("query_norm", "key_norm"):
            norm = NORMS[layer.query_key_normalization](
                name=name, dtype=layer.dtype_policy
            )
            setattr(layer, f"_{name}", norm)
            norm.build((None, None, None, layer.key_dim))
            norm.supports_masking = True  # avoids a warning about input masks


def projection(
    rank: int, width: tuple, name: str, use_bias: bool, bound: int = 1, **options: Any
) -> keras.layers.EinsumDense:
    """Returns a dense layer that maps the last `bound` axes of inputs of this rank.

    `width` are the sizes of the new last axes.
    """
    letters = iter(ascii_lowercase)
    same, mapped, new = (
        "".join(next(letters) for _ in range(count))
        for count in (rank - bound, bound, len(width))
    )
    dense = keras.layers.EinsumDense(
        f"{same}{mapped},{mapped}{new}->{same}{new}",
        output_shape=(*[None] * (len(same) - 1), *width),
        bias_axes=new if use_bias else None,
        name=name,
        **options,
    )
    dense.supports_masking = True  # avoids a warning about input masks
    return dense


def part(name: str, description: str) -> property:
    """Returns a read-only property for the attribute `name`."""
    return property(attrgetter(name), doc=description)


def check_scores(norm: Any, sinks: bool, cap: Any, normalizer: Any) -> None:
    """Raises a ValueError for invalid scoring arguments of `MultiHeadAttention`."""
    if norm is not None and norm not in NORMS:
        raise ValueError(
            f"`query_key_normalization` must be one of {sorted(NORMS)} or None. "
            f"Received: query_key_normalization={norm!r}"
        )
    if sinks and normalizer != "softmax":
        raise ValueError(
            '`attention_sinks` need normalizer="softmax", in which they take part. '
            f"Received: attention_sinks={sinks}, normalizer={normalizer!r}"
        )
    if cap is not None and not cap > 0:
        raise ValueError(f"`soft_cap` must be above 0. Received: soft_cap={cap}")


def prepare_heads(
    layer: Any, value: Tensor, key: Tensor | None, mask: Tensor | None
) -> Prepared:
    """Projects a memory; see `AttentionLayer.prepare`."""
    check_usable(layer, "prepare", value)
    mask = masks.check("mask", as_boolean("mask", mask), tuple(value.shape[:2]))
    value = ops.cast(value, layer.compute_dtype)
    key = value if key is None else ops.cast(key, layer.compute_dtype)
    projections = layer._projections
    return Prepared(projections.keys(key), projections.values(value), mask)


def sample_heads(
    layer: Any, shape: tuple[Any, Any, Any], training: bool | None
) -> Tensor | None:
    """Returns a dropout mask (B, T, H, S), or None; see `AttentionLayer.sample`."""
    if not (layer.dropout and training):
        return None
    batch, queries, keys = shape
    sizes = (batch, queries, layer.num_heads, keys)
    seeds = layer._dropout_layer.seed_generator, layer._dropout_layer.seed
    return sampling.dropout_mask(sizes, layer.dropout, layer.compute_dtype, *seeds)


def output_shape_of(layer: Any, query: Any, value: Any, key: Any) -> tuple:
    """Returns the shape of the output, after a check of the three shapes."""
    check_inputs(*with_time(query, value, key), layer.attention_axes)
    return (*query[:-1], *(layer.output_shape or query[-1:]))


def output_spec(layer: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns the symbolic output of a call, after all checks."""
    call = call_arguments(layer, args, kwargs)
    query, value, key = call["query"], call["value"], call.get("key")
    key = value if key is None else key
    shape = layer.compute_output_shape(query.shape, value.shape, key.shape)
    output = keras.KerasTensor(shape, layer.compute_dtype)
    call_masks = Masks(*map(call.get, MASK_NAMES))
    sizes = layer.num_heads, layer.attention_axes
    query, *_, single = check_call(
        query, value, key, call_masks, *sizes, call.get("bias")
    )
    axes = folding.resolve(layer.attention_axes, len(query.shape))
    check_order(layer, axes, call.get("use_causal_mask", False))
    if not call.get("return_attention_scores"):
        return output
    shape = folding.weights_shape(query.shape, key.shape, layer.num_heads, axes)
    shape = (*shape[:-2], shape[-1]) if single else shape
    return output, keras.KerasTensor(shape, layer.compute_dtype)


def empty_cache(
    layer: Any, batch: Any, length: Any, window: int | None = None
) -> Prepared:
    """Returns an empty cache of a layer with heads, at most as long as the window."""
    check_usable(layer, "initial_cache", None)
    length = cache_length(length)
    if window is not None:
        length = min(length, window) if isinstance(length, Integral) else window
    heads = (batch, length, layer.num_key_value_heads)
    return Prepared(
        ops.zeros((*heads, layer.key_dim), layer.compute_dtype),
        ops.zeros((*heads, layer.value_dim), layer.compute_dtype),
        ops.zeros((batch, length), "bool"),
    )


def check_fits(layer: Any, name: str, inputs: Tensor, memory: Prepared) -> None:
    """Raises a ValueError if keys and values belong to another layer or batch."""
    for side, width in (("key", layer.key_dim), ("value", layer.value_dim)):
        shape = tuple(getattr(memory, side).shape)
        wanted = (inputs.shape[0], None, layer.num_key_value_heads, width)
        fits = len(shape) == 4 and all(
            None in (a, b) or a == b for a, b in zip(shape, wanted)
        )
        if not fits:
            raise ValueError(
                f"`{name}` must be one of this layer and for this batch: its {side} "
                f"must have shape {wanted}. Received: {name}.{side}.shape={shape}"
            )
