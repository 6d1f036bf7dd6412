"""Parts of multi-head attention: projections, checks of the call, and masks.

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


class Call(NamedTuple):
    """A checked call: all tensors and masks fit, and the masks are booleans."""

    query: Tensor  # (B, ..., D); a single query gets a T axis
    query_mask: Tensor | None  # (B, ...)
    value_mask: Tensor | None  # (B, ...)
    key_mask: Tensor | None  # (B, ...)
    attention_mask: Tensor | None  # see `axes.fold_mask`
    bias: Tensor | None  # has all axes of the weights
    single: bool  # whether the query had no T axis


def integers(name: str, value: Any) -> tuple[int, ...] | None:
    """Returns one or several integers as a tuple, or raises a ValueError."""
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
    """Returns a dense layer that maps the last axes and keeps the other axes.

    Args:
        rank: the rank of the inputs.
        bound: the number of last axes to map.
        width: the sizes of the new last axes.
        name: the name of the layer.
        use_bias: whether to add a bias.
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
    dense.supports_masking = True  # avoids a warning about input masks
    return dense


NORMS: dict[Any, Any] = {
    "rms": partial(keras.layers.RMSNormalization, epsilon=1e-6),
    "layer": partial(keras.layers.LayerNormalization, epsilon=1e-6, center=False),
}


def head_norm(
    kind: str | None, width: int, name: str, dtype: Any
) -> keras.layers.Layer | None:
    """Returns a normalization of each head's E entries, with a learned scale, or None.

    Args:
        kind: "rms", "layer" or None.
        width: E.
        name: the name of the layer.
        dtype: the dtype policy of the layer.
    """
    if kind is None:
        return None
    norm = NORMS[kind](name=name, dtype=dtype)
    norm.build((None, None, None, width))
    norm.supports_masking = True  # avoids a warning about input masks
    return norm


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


def check_inputs(query: Shape, value: Shape, key: Shape, axes: Any) -> folding.Axes:
    """Checks that the shapes of query, value and key (B, ..., D) fit each other.

    Returns:
        The attention axes as non-negative indices.

    Raises:
        ValueError: if the ranks, the batch sizes, the lengths of value and key, or the
            sizes of other axes differ, or if there is nothing to attend to.
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
    """Returns a mask as booleans; numbers 0 and 1 are accepted.

    Raises:
        ValueError: for other numbers. A function that is being compiled cannot check
            them.
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


def check_call(
    query: Tensor,
    value: Tensor,
    key: Tensor,
    query_mask: Tensor | None,
    value_mask: Tensor | None,
    key_mask: Tensor | None,
    attention_mask: Tensor | None,
    bias: Tensor | None,
    heads: int,
    axes: Any,
) -> Call:
    """Checks that the tensors and the masks of a call fit each other.

    Args:
        query: (B, ..., Dq), or (B, Dq) for one query with values (B, S, Dv).
        value: (B, ..., Dv).
        key: (B, ..., Dk).
        query_mask: (B, ...).
        value_mask: (B, ...).
        key_mask: (B, ...).
        attention_mask: (T, S), (B, T, S) or (B, H, T, S); for inputs of higher rank,
            see `axes.fold_mask`.
        bias: a numeric bias, see `axes.full_bias`.
        heads: H.
        axes: the axes to attend over, as given by the user.

    Raises:
        ValueError: if a rank, a shape or a mask is invalid.
    """
    single = len(query.shape) == 2 and len(value.shape) == 3
    if single:
        query_mask, attention_mask, bias = (
            x if x is None or hasattr(x, "shape") else ops.convert_to_tensor(x)
            for x in (query_mask, attention_mask, bias)
        )
        query = ops.expand_dims(query, 1)  # (B, 1, D)
        query_mask = None if query_mask is None else ops.expand_dims(query_mask, -1)
        if attention_mask is not None:
            attention_mask = ops.expand_dims(attention_mask, -2)
        bias = None if bias is None else ops.expand_dims(bias, -2)
    q, v, k = tuple(query.shape), tuple(value.shape), tuple(key.shape)
    plain = len(q) == len(v) == 3 and v[:2] == k[:2] and q[0] == v[0] and v[1] != 0
    found = (1,) if plain and axes is None else check_inputs(q, v, k, axes)
    if query_mask is not None:
        query_mask = as_boolean("query_mask", query_mask)
        query_mask = masks.check("query_mask", query_mask, q[:-1])
    if value_mask is not None:
        value_mask = as_boolean("value_mask", value_mask)
        value_mask = masks.check("value_mask", value_mask, v[:-1])
    if key_mask is not None:
        key_mask = masks.check("key_mask", as_boolean("key_mask", key_mask), k[:-1])
    if attention_mask is not None:
        name, mask = "attention_mask", as_boolean("attention_mask", attention_mask)
        attention_mask = folding.check_mask(name, mask, q, k, heads, found)
    if bias is not None:
        bias = folding.full_bias(bias, q, k, heads, found)
    return Call(query, query_mask, value_mask, key_mask, attention_mask, bias, single)


def fold_call(call: Call, key: Tensor, axes: folding.Axes) -> Call:
    """Folds the masks and the bias of a call to those of attention over one axis.

    Args:
        call: the result of `check_call`.
        key: (B, ..., Dk).
        axes: the attention axes as non-negative indices.

    Returns:
        A call with masks (B, T) and (B, S), and an attention mask and bias of rank 4.
    """
    q, k = ops.shape(call.query), ops.shape(key)
    query_mask, value_mask, key_mask = (
        None if mask is None else folding.fold_sequence_mask(mask, shape, axes)
        for mask, shape in ((call[1], q), (call[2], k), (call[3], k))
    )
    pairs, bias = (
        None if x is None else folding.fold_mask(x, q, k, axes) for x in call[4:6]
    )
    return Call(call.query, query_mask, value_mask, key_mask, pairs, bias, call.single)


def with_time(query: Any, value: Any, key: Any) -> tuple[tuple, tuple, tuple]:
    """Returns the three shapes; a single query gets a T axis."""
    query, value = tuple(query), tuple(value)
    key = value if key is None else tuple(key)
    if len(query) == 2 and len(value) == 3:
        query = (query[0], 1, query[1])
    return query, value, key


def attention_equations(rank: int, axes: folding.Axes) -> tuple[str, str]:
    """Returns the einsum equations of projected heads, for subclasses of Keras' layer.

    Args:
        rank: the rank of the projected heads (B, ..., H, E).
        axes: the attention axes.

    Returns:
        The equation from keys and queries to scores, and the equation from scores and
        values to heads.
    """
    letters = ascii_lowercase
    query = letters[:rank]
    new = dict(zip(axes, letters[rank:]))
    key = "".join(new.get(n, query[n]) for n in range(rank))
    kept = "".join(query[n] for n in range(rank - 1) if n not in axes)
    scores = kept + "".join(query[n] for n in axes) + "".join(key[n] for n in axes)
    return f"{key},{query}->{scores}", f"{scores},{key}->{query}"


def check_order(layer: Any, axes: folding.Axes, causal: bool) -> None:
    """Raises a ValueError for options that need one axis if there are several axes."""
    ordered = {
        "use_causal_mask": causal,
        "sliding_window": getattr(layer, "sliding_window", None),
        "position": getattr(layer, "position", None),
    }
    if len(axes) == 1:
        return
    for name, value in ordered.items():
        if value:
            raise ValueError(
                f"`{name}` needs one axis to attend over, along which there is an "
                f"order. Received: {name}={value}, attention_axes={axes}"
            )


def check_kept(layer: Any, name: str, inputs: Tensor, kept: Any) -> None:
    """Checks that projected keys and values fit a layer and the batch of its inputs.

    Raises:
        ValueError: if the keys and values belong to another layer or batch.
    """
    for part, width in (("key", layer.key_dim), ("value", layer.value_dim)):
        found = tuple(getattr(kept, part).shape)
        wanted = (inputs.shape[0], None, layer.num_key_value_heads, width)
        fits = len(found) == 4 and all(
            None in (a, b) or a == b for a, b in zip(found, wanted)
        )
        if not fits:
            raise ValueError(
                f"`{name}` must be one of this layer and for this batch: its {part} "
                f"must have shape {wanted}. Received: {name}.{part}.shape={found}"
            )


def _differ(a: int | None, b: int | None) -> bool:
    return a is not None and b is not None and a != b
