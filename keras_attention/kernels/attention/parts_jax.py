"""Attention on JAX, compiled; its batch or heads may be split over devices.

Each device computes its samples and heads; see `kernels/partitioning/jax.py`. The
shapes are those of `reference.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
from jax import numpy as jnp

from keras_attention.kernels.attention import bands_jax, dropout_jax, tiles_jax
from keras_attention.kernels.attention.bands import Band
from keras_attention.kernels.attention.tiles_jax import in_groups
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
    *words, rate = dropout or (None, None, None)
    whole = ("queries",) if is_causal else ()
    pairs = mask, bias, *words
    options = is_causal, rate
    return _computed(
        tiles_jax.attention, options, whole, scale, query, key, value, *pairs
    )


def local_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float | Tensor,
    band: Band,
) -> Tensor:
    """Computes `bands_jax.attention`."""
    kernel, whole = bands_jax.attention, ("queries",)
    return _computed(kernel, (band,), whole, scale, query, key, value, mask)


def _computed(
    kernel: Callable,
    options: tuple,
    whole: tuple[str, ...],
    scale: float | Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *pairs: Tensor | None,
) -> Tensor:
    """Calls a kernel, on several devices with the samples and heads of each.

    The kernel takes the scale, the hashable options, query, key, value and the tensors
    of pairs, which broadcast to (B, H, T, S). The named axes `whole` are not split.
    """
    if not isinstance(scale, (int, float)):  # a tensor
        query, scale = query * scale, 1.0
    options = float(scale), *options
    mask = None if mask is None else jnp.asarray(mask)  # perhaps a variable
    pairs = mask, *pairs
    if not has_devices():
        return _compiled(kernel, options, query, key, value, *pairs)
    batch, queries, heads, width = query.shape
    groups = key.shape[2]
    q = query.reshape(batch, queries, groups, heads // groups, width)
    pairs = tuple(None if x is None else in_groups(x, groups) for x in pairs)
    axes: list[Axes | None] = [_named(QUERY, q, whole)]
    axes += [_named(KEY, x, whole) for x in (key, value)]
    axes += [None if x is None else _named(PAIRS, x, whole) for x in pairs]
    part = _kernel_of_part(kernel, options, tuple(axes))
    (out,) = part(q, key, value, *(x for x in pairs if x is not None))
    return out.reshape(batch, queries, heads, -1)


@partial(jax.jit, static_argnums=(0, 1))
def _compiled(kernel: Callable, options: tuple, *tensors: Tensor | None) -> Tensor:
    """Calls a kernel in `jax.jit`, so that a second such call compiles nothing."""
    return kernel(*options, *tensors)


def _named(names: Axes, x: Tensor, whole: tuple[str, ...]) -> Axes:
    """Removes the names of axes that are not split, or broadcast because of size 1."""
    sizes = zip(names, x.shape)
    return tuple(name if n > 1 and name not in whole else None for name, n in sizes)


@lru_cache(maxsize=256)
def _kernel_of_part(
    kernel: Callable, options: tuple, axes: tuple[Axes | None, ...]
) -> Callable:
    """Returns the partitioned kernel for tensors with these named axes."""

    def part(q: Tensor, key: Tensor, value: Tensor, *tensors: Tensor) -> tuple[Tensor]:
        batch, queries, groups, heads, width = q.shape
        left = iter(tensors)
        pairs = [None if x is None else _joined(next(left)) for x in axes[3:]]
        query = q.reshape(batch, queries, groups * heads, width)
        out = kernel(*options, query, key, value, *pairs)
        return (out.reshape(batch, queries, groups, heads, -1),)

    return partitioned(part, [x for x in axes if x is not None], [axes[0] or ()])


def _joined(x: Tensor) -> Tensor:
    """Reverses `in_groups`."""
    return x.reshape(x.shape[0], -1, *x.shape[3:])
