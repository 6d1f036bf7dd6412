"""Checks the shapes of the tensors and masks of a call.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.numerics import masks

Tensor = Any


def check_usable(layer: keras.layers.Layer, method: str, tensor: Tensor) -> None:
    """Raises a RuntimeError if the layer is not built or the tensor is symbolic."""
    if not layer.built:
        raise RuntimeError(
            f"`{method}` needs a layer that is built: call or build layer "
            f"{layer.name!r} first, or its weights would have no owner."
        )
    if isinstance(tensor, keras.KerasTensor):
        raise RuntimeError(
            f"`{method}` is for use inside a layer's `call`; on symbolic tensors "
            f"the weights of layer {layer.name!r} would be left out of the model. "
            "Call the layer instead."
        )


def check_call(
    query: Tensor,
    value: Tensor,
    key: Tensor,
    query_mask: Tensor | None = None,
    value_mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
    use_causal_mask: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Checks a call of an attention layer and merges its masks.

    Args:
        query: (B, T, Dq), or (B, Dq) for one query.
        value: (B, S, V).
        key: (B, S, Dk).
        query_mask: booleans (B, T), or (B,) for one query.
        value_mask: booleans (B, S).
        key_mask: booleans (B, S).
        attention_mask: booleans (T, S) or (B, T, S); (B, S) for one query.
        use_causal_mask: whether query t may attend only to keys 0 … t.

    Returns:
        The query (B, T, Dq), and a mask of rank 3 that broadcasts to (B, T, S). The
        mask has the smallest possible shape, or is None if nothing is masked.

    Raises:
        ValueError: if a rank, a batch size, a length or a mask does not fit.
    """
    single = len(query.shape) == 2
    if single:
        query = ops.expand_dims(query, 1)  # (B, 1, Dq)
    check_memory(query, value, key)
    (batch, queries), keys = query.shape[:2], key.shape[1]
    found = []
    if query_mask is not None:
        rows = (batch,) if single else (batch, queries)
        query_mask = masks.check("query_mask", query_mask, rows)
        found.append(ops.expand_dims(query_mask, (1, 2) if single else 2))  # (B, T, 1)
    if value_mask is not None:
        value_mask = masks.check("value_mask", value_mask, (batch, keys))
        found.append(ops.expand_dims(value_mask, 1))  # (B, 1, S)
    if key_mask is not None:
        key_mask = masks.check("key_mask", key_mask, (batch, keys))
        found.append(ops.expand_dims(key_mask, 1))  # (B, 1, S)
    if attention_mask is not None:
        shape: tuple[Any, ...] = (batch, queries, keys)
        missing = None  # the axis that the mask lacks
        if single:
            missing, shape = 1, (batch, keys)
        elif len(attention_mask.shape) == 2:
            missing, shape = 0, (queries, keys)
        attention_mask = masks.check("attention_mask", attention_mask, shape)
        if missing is not None:
            attention_mask = ops.expand_dims(attention_mask, missing)
        found.append(attention_mask)  # (B, T, S), with size 1 for a missing axis
    if use_causal_mask:
        causal = masks.causal(ops.shape(query)[1], ops.shape(key)[1])
        found.append(ops.expand_dims(causal, 0))  # (1, T, S)
    return query, masks.merge(*found) if found else None


def check_memory(query: Tensor, value: Tensor, key: Tensor) -> None:
    """Checks that the ranks, batch sizes and lengths of query, value and key fit."""
    for name, tensor in (("query", query), ("value", value), ("key", key)):
        if len(tensor.shape) != 3:
            raise ValueError(
                f"`{name}` must have shape (batch, length, width). "
                f"Received: {name}.shape={tuple(tensor.shape)}"
            )
    for name, tensor in (("value", value), ("key", key)):
        batches = (query.shape[0], tensor.shape[0])
        if None not in batches and batches[0] != batches[1]:
            raise ValueError(
                f"`query` and `{name}` must have the same batch size (axis 0). "
                f"Received: query.shape={tuple(query.shape)}, "
                f"{name}.shape={tuple(tensor.shape)}"
            )
    if 0 in (key.shape[1], value.shape[1]):
        raise ValueError(
            "`value` and `key` must hold at least one entry to attend to; hide entries "
            f"with `value_mask`. Received: value.shape={tuple(value.shape)}, "
            f"key.shape={tuple(key.shape)}"
        )
    if None not in (key.shape[1], value.shape[1]) and key.shape[1] != value.shape[1]:
        raise ValueError(
            "`key` and `value` must have the same length (axis 1). "
            f"Received: key.shape={tuple(key.shape)}, value.shape={tuple(value.shape)}"
        )


def check_learns_by_output(attention: Any, name: str = "attention") -> None:
    """Raises a ValueError if an attention layer learns only by its returned weights.

    Models that do not use these weights call this function.

    Args:
        attention: an attention layer, as returned by `as_attention`.
        name: the name of the argument, for the error message.
    """
    if attention.learns_by_weights:
        raise ValueError(
            f"`{name}` must learn by its output. Layer {attention.name!r} learns by "
            "the weights that it returns, if they reach a `CarryChoices`. Here they do "
            f"not, so it would never learn. Received: {name}={attention!r}"
        )


def check_hop(query: Tensor, value: Tensor, key: Tensor) -> None:
    """Checks that keys and values have the width of the query, as a hop requires."""
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            "`query` and `key` must have the same width (last axis) for this score. "
            f"Received: query.shape={tuple(query.shape)}, key.shape={tuple(key.shape)}"
        )
    if query.shape[-1] != value.shape[-1]:
        raise ValueError(
            "`value` must be as wide as `query`, because the output is added to it. "
            f"Received: query.shape={tuple(query.shape)}, "
            f"value.shape={tuple(value.shape)}"
        )
