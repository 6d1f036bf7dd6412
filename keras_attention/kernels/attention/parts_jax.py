"""Attention on JAX, compiled; its batch or heads may be split over devices.

Each device computes its samples and heads; see `kernels/partitioning/jax.py`.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width of a
head, V width of a value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
from jax import numpy as jnp

from keras_attention.kernels.attention import bands_jax, dropout_jax, tiles_jax
from keras_attention.kernels.attention.bands import Band
from keras_attention.kernels.partitioning.jax import Axes, has_devices, partitioned

Tensor = Any

QUERY = "batch", "queries", "groups", "heads", None  # (B, T, G, H/G, E)
KEY = "batch", None, "groups", None  # (B, S, G, E)
PAIRS = "batch", "groups", "heads", "queries", None  # (B, G, H/G, T, S)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float | Tensor,
    is_causal: bool,
    bias: Tensor | None,
    dropout: dropout_jax.Dropout | None = None,
) -> Tensor:
    """Computes `tiles_jax.attention`."""
    query, scale = _scaled(query, scale)
    mask = None if mask is None else jnp.asarray(mask)  # perhaps a variable
    words = (None, None) if dropout is None else dropout[:2]
    options = scale, is_causal, None if dropout is None else dropout.rate
    tensors = query, key, value, mask, bias, *words
    if not has_devices():
        return _compiled(_tiles, options, *tensors)
    return _by_parts(_tiles, options, not is_causal, *tensors)


def local_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float | Tensor,
    band: Band,
) -> Tensor:
    """Computes `bands_jax.attention`."""
    query, scale = _scaled(query, scale)
    mask = None if mask is None else jnp.asarray(mask)  # perhaps a variable
    if not has_devices():
        return _compiled(_bands, (scale, band), query, key, value, mask)
    return _by_parts(_bands, (scale, band), False, query, key, value, mask)


def _scaled(query: Tensor, scale: float | Tensor) -> tuple[Tensor, float]:
    """Multiplies the query by a scale that is not a number, but a tensor."""
    if isinstance(scale, (int, float)):
        return query, float(scale)
    return query * scale, 1.0


def _tiles(options: tuple, *given: Tensor | None) -> Tensor:
    scale, is_causal, rate = options
    query, key, value, mask, bias, query_words, key_words = given
    dropout = None
    if rate is not None:
        dropout = dropout_jax.Dropout(query_words, key_words, rate)
    return tiles_jax.attention(query, key, value, mask, scale, is_causal, bias, dropout)


def _bands(options: tuple, *given: Tensor | None) -> Tensor:
    query, key, value, mask = given
    return bands_jax.attention(query, key, value, mask, *options)


@partial(jax.jit, static_argnums=(0, 1))
def _compiled(kernel: Callable, options: tuple, *tensors: Tensor | None) -> Tensor:
    """Calls a kernel in `jax.jit`, so that a second such call compiles nothing."""
    return kernel(options, *tensors)


def _by_parts(
    kernel: Callable,
    options: tuple,
    splits_queries: bool,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *pairs: Tensor | None,
) -> Tensor:
    """Calls a kernel with the samples and heads of each device.

    Args:
        kernel: a function of the options, the query and the tensors below.
        options: hashable options of the kernel.
        splits_queries: whether the kernel does not depend on the place of a query.
        query: (B, T, H, E).
        key: (B, S, G, E).
        value: (B, S, G, V).
        *pairs: tensors that broadcast to (B, H, T, S), or None.

    Returns:
        (B, T, H, V).
    """
    batch, queries, heads, width = query.shape
    groups = key.shape[2]
    q = query.reshape(batch, queries, groups, heads // groups, width)
    given = [None if x is None else _in_groups(x, groups) for x in pairs]
    whole = () if splits_queries else ("queries",)
    axes: list[Axes | None] = [_named(QUERY, q, whole)]
    axes += [_named(KEY, x, whole) for x in (key, value)]
    axes += [None if x is None else _named(PAIRS, x, whole) for x in given]
    part = _kernel_of_part(kernel, options, tuple(axes))
    (found,) = part(q, key, value, *(x for x in given if x is not None))
    return found.reshape(batch, queries, heads, -1)


def _named(names: Axes, x: Tensor, whole: tuple[str, ...]) -> Axes:
    """Removes the names of axes that are not split, or broadcast because of size 1."""
    split = (
        name if n > 1 and name not in whole else None for name, n in zip(names, x.shape)
    )
    return tuple(split)


@lru_cache(maxsize=256)
def _kernel_of_part(
    kernel: Callable, options: tuple, axes: tuple[Axes | None, ...]
) -> Callable:
    """Returns the partitioned kernel for tensors with these named axes."""

    def part(q: Tensor, key: Tensor, value: Tensor, *given: Tensor) -> tuple[Tensor]:
        batch, queries, groups, heads, width = q.shape
        left = iter(given)
        pairs = [None if x is None else _joined(next(left)) for x in axes[3:]]
        query = q.reshape(batch, queries, groups * heads, width)
        found = kernel(options, query, key, value, *pairs)
        return (found.reshape(batch, queries, groups, heads, -1),)

    return partitioned(part, [x for x in axes if x is not None], [axes[0] or ()])


def _in_groups(x: Tensor, groups: int) -> Tensor:
    """Reshapes (B, H, T, S) to (B, G, H/G, T, S), and (B, 1, ...) to (B, 1, 1, ...)."""
    first = 1 if x.shape[1] == 1 else groups
    return x.reshape(x.shape[0], first, -1, *x.shape[2:])


def _joined(x: Tensor) -> Tensor:
    """Reverses `_in_groups`."""
    return x.reshape(x.shape[0], -1, *x.shape[3:])
