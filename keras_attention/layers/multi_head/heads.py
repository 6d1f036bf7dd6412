"""The parts of multi-head attention: projections, checks of a call, and its masks.

Shapes: B batch, T queries, S keys, H heads, D widths, E width of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Integral
from string import ascii_lowercase
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.numerics import axes as folding
from keras_attention.numerics import masks

Tensor = Any
Shape = Sequence[Any]


class FoldedMasks(NamedTuple):
    """The masks of a call: of keys and pairs in one, of queries in another."""

    pairs: Tensor | None  # broadcasts to (B, H, T, S)
    rows: Tensor | None  # (B, 1, T, 1)


def integers(name: str, value: Any) -> tuple[int, ...] | None:
    """Returns a tuple of integers from one or several, or raises a ValueError."""
    if value is None:
        return None
    found = (value,) if isinstance(value, Integral) else value
    listed = isinstance(found, (list, tuple))
    if not listed or not all(isinstance(n, Integral) for n in found):
        raise ValueError(
            f"Invalid `{name}`: it must be an integer or a list or tuple of integers. "
            f"Received: {name}={value!r}"
        )
    return tuple(int(n) for n in found)


def projection(
    rank: int, bound: int, width: Shape, name: str, use_bias: bool, **more: Any
) -> keras.layers.EinsumDense:
    """A dense map of the last axes that leaves those before them as they are.

    Args:
        rank: of what goes in.
        bound: how many of its last axes are mapped.
        width: the sizes of the axes that take their place.
        name: of the layer.
        use_bias: whether there is a bias.
        **more: arguments of `EinsumDense`.
    """
    letters = iter(ascii_lowercase)
    kept, mapped, new = (
        "".join(next(letters) for _ in range(count))
        for count in (rank - bound, bound, len(width))
    )
    dense = keras.layers.EinsumDense(
        f"{kept}{mapped},{mapped}{new}->{kept}{new}",
        output_shape=(*[None] * (len(kept) - 1), *width),
        bias_axes=new if use_bias else None,
        name=name,
        **more,
    )
    dense.supports_masking = True  # or it would warn of the masks of its inputs
    return dense


NORMS: dict[Any, Any] = {
    "rms": partial(keras.layers.RMSNormalization, epsilon=1e-6),
    "layer": partial(keras.layers.LayerNormalization, epsilon=1e-6, center=False),
}


def head_norm(
    kind: str | None, width: int, name: str, dtype: Any
) -> keras.layers.Layer | None:
    """A normalization of each head's E numbers, with a learned scale; None is none.

    Args:
        kind: "rms", "layer" or None.
        width: E.
        name: of the layer.
        dtype: of the layer.
    """
    if kind is None:
        return None
    norm = NORMS[kind](name=name, dtype=dtype)
    norm.build((None, None, None, width))
    norm.supports_masking = True  # or it would warn of the masks of its inputs
    return norm


def check_scores(norm: Any, sinks: bool, cap: Any, normalizer: Any) -> None:
    """Refuses arguments of `MultiHeadAttention` that say nothing of how to score."""
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


def check_inputs(query: Shape, value: Shape, key: Shape, axes: Any) -> folding.Axes:
    """Holds the shapes of query, value and key (B, ..., D) to each other.

    Returns:
        The axes that are attended over, counted from the first.

    Raises:
        ValueError: if ranks, batches, lengths of value and key, or axes that are not
            attended over differ, or there is nothing to attend to.
    """
    received = (
        f"Received: query_shape={tuple(query)}, value_shape={tuple(value)}, "
        f"key_shape={tuple(key)}"
    )
    lengths = zip(value[1:-1], key[1:-1])
    if len(value) != len(key) or any(_differ(a, b) for a, b in lengths):
        raise ValueError(
            "All dimensions of `value` and `key`, except the last one, must be equal. "
            f"{received}"
        )
    if len(query) < 3 or len(query) != len(value):
        raise ValueError(
            "`query`, `value` and `key` must have one rank of at least 3, (batch, ..., "
            "width); `query` may be (batch, width) beside a value of rank 3. "
            f"{received}"
        )
    found = folding.resolve(axes, len(query))
    for axis in (0, *folding.free(found, len(query))):
        if _differ(query[axis], value[axis]) or _differ(query[axis], key[axis]):
            raise ValueError(
                "`query`, `value` and `key` must have equal sizes along the batch and "
                f"each axis that is not attended over: axis {axis}. {received}"
            )
    if any(value[axis] == 0 or key[axis] == 0 for axis in found):
        raise ValueError(
            "`value` and `key` must hold at least one entry to attend to; hide entries "
            f"with `value_mask`. {received}"
        )
    return found


def as_boolean(name: str, mask: Tensor | None) -> Tensor | None:
    """A mask as booleans; numbers are taken, too, if they are 0 and 1.

    Raises:
        ValueError: if there are others, where that can be seen: not in a function that
            is being compiled.
    """
    if mask is None:
        return None
    if not hasattr(mask, "dtype"):
        mask = ops.convert_to_tensor(mask)
    if keras.backend.standardize_dtype(mask.dtype) == "bool":
        return mask
    if isinstance(mask, keras.KerasTensor):
        return keras.KerasTensor(mask.shape, "bool")
    if not kernels.is_traced(mask):
        found = np.unique(ops.convert_to_numpy(mask).astype("float32"))
        if not np.isin(found, (0, 1)).all():
            raise ValueError(
                f"`{name}` must be boolean, True where attention is allowed, or hold "
                "nothing but 0 and 1; what is to be added to scores is `bias`. "
                f"Received: dtype={keras.backend.standardize_dtype(mask.dtype)}, "
                f"values={found[:5].tolist()}"
            )
    return ops.cast(mask, "bool")


def check_masks(
    shapes: tuple[Shape, Shape, Shape],
    heads: int,
    axes: folding.Axes,
    query_mask: Tensor | None,
    value_mask: Tensor | None,
    key_mask: Tensor | None,
    attention_mask: Tensor | None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """Holds each mask to its shape.

    Args:
        shapes: of query, value and key, None where unknown.
        heads: H.
        axes: the axes that are attended over.
        query_mask: (B, ...).
        value_mask: (B, ...).
        key_mask: (B, ...).
        attention_mask: (T, S), (B, T, S) or (B, H, T, S); of inputs of higher rank, see
            `ops.axes.fold_mask`.

    Returns:
        The masks in the same order, booleans.

    Raises:
        ValueError: if one has another rank or shape, or is no mask.
    """
    query, value, key = shapes
    names = ("query_mask", "value_mask", "key_mask", "attention_mask")
    given = [
        as_boolean(name, mask)
        for name, mask in zip(names, (query_mask, value_mask, key_mask, attention_mask))
    ]
    return (
        masks.check("query_mask", given[0], query[:-1]),
        masks.check("value_mask", given[1], value[:-1]),
        masks.check("key_mask", given[2], key[:-1]),
        folding.check_mask("attention_mask", given[3], query, key, heads, axes),
    )


def fold_masks(
    query_shape: Shape,
    key_shape: Shape,
    axes: folding.Axes,
    query_mask: Tensor | None,
    value_mask: Tensor | None,
    key_mask: Tensor | None,
    attention_mask: Tensor | None,
    window: Tensor | None = None,
) -> FoldedMasks:
    """Merges masks that `check_masks` returned, no larger than need be.

    Args:
        query_shape: (B, ..., D), numbers or tensors.
        key_shape: (B, ..., D), numbers or tensors.
        axes: the axes that are attended over.
        query_mask: (B, ...).
        value_mask: (B, ...).
        key_mask: (B, ...).
        attention_mask: of pairs.
        window: booleans (T, S).
    """
    pairs = masks.merge(
        *(
            ops.expand_dims(folding.fold_sequence_mask(mask, key_shape, axes), (1, 2))
            for mask in (value_mask, key_mask)
            if mask is not None
        ),
        None
        if attention_mask is None
        else folding.fold_mask(attention_mask, query_shape, key_shape, axes),
        None if window is None else ops.expand_dims(window, (0, 1)),
    )  # broadcasts to (B, H, T, S)
    if query_mask is None:
        return FoldedMasks(pairs, None)
    rows = folding.fold_sequence_mask(query_mask, query_shape, axes)
    return FoldedMasks(pairs, ops.expand_dims(rows, (1, 3)))  # (B, 1, T, 1)


def single_query(
    query: Tensor,
    value: Tensor,
    query_mask: Tensor | None,
    attention_mask: Tensor | None,
    bias: Tensor | None,
) -> tuple[bool, Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Gives one query (B, D) beside values (B, S, V) the T axis that it lacks."""
    if len(query.shape) != 2 or len(value.shape) != 3:
        return False, query, query_mask, attention_mask, bias
    query_mask, attention_mask, bias = (
        x if x is None or hasattr(x, "shape") else ops.convert_to_tensor(x)
        for x in (query_mask, attention_mask, bias)
    )
    return (
        True,
        ops.expand_dims(query, 1),  # (B, 1, D)
        None if query_mask is None else ops.expand_dims(query_mask, -1),
        None if attention_mask is None else ops.expand_dims(attention_mask, -2),
        None if bias is None else ops.expand_dims(bias, -2),
    )


def _differ(a: int | None, b: int | None) -> bool:
    return a is not None and b is not None and a != b
