"""Attention by cuDNN, for JAX on an NVIDIA GPU: what it takes, and masks as lengths.

cuDNN stores no scores. It takes lengths of keys, but a mask only as T · S numbers, with
a gradient of the same size (jax 28974, 34685). A mask of keys becomes lengths:

- Without a causal mask, the order of the keys does not matter. The valid keys and their
  values move to the front.
- With a causal mask, lengths are right if the padding is at the end. This is known at
  run time only, so both branches are compiled. In the other branch, matrix products
  compute some queries of all heads at a time, and again for the gradient.

A length is at least 1, since cuDNN does not define attention to no key. Queries that
may attend to nothing are set to 0 afterwards, which sets their gradients to 0 as well.
JAX refuses gradients for an odd number of queries or keys, even without a bias. There,
a query or key of zeros is added, which lengths leave out. There is no forward mode
(`jax.jvp`) and no second derivative.

Nothing here was run on a GPU yet. Tests compute the same calls by XLA on a CPU, and
lower the calls of cuDNN.

Shapes: B batch, T queries, S keys, H heads, G heads of keys and values, E width.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import keras
import numpy as np
from jax import lax
from jax import numpy as jnp
from keras import ops

from keras_attention.kernels.attention import reference
from keras_attention.kernels.keras import is_exporting
from keras_attention.kernels.partitioning.jax import has_devices
from keras_attention.numerics.precision import HALF, to_float32

Tensor = Any

IMPLEMENTATION = "cudnn"  # of `jax.nn.dot_product_attention`
FEWEST = 128  # queries with a mask; for fewer, copies of the keys would cost too much
CHUNK = 2**24  # scores of some queries of all heads, where lengths do not fit


@cache
def widest() -> int:
    """Returns the largest width of a head that cuDNN takes here; 0 for no width."""
    device = jax.local_devices(backend="gpu")[0]
    if "cuda" not in device.client.platform_version:
        return 0
    try:  # JAX has no public name of the version
        from jax._src.lib import cuda_versions

        version = cuda_versions.cudnn_get_version()
    except (ImportError, AttributeError, RuntimeError) as error:
        warnings.warn(
            f"Attention computes matrix products: JAX finds no cuDNN ({error}).",
            stacklevel=2,
        )
        return 0
    capability = tuple(map(int, device.compute_capability.split(".")))
    # As NVIDIA's TransformerEngine says, windows with lengths came with 9.6, and
    # attention has errors in 9.10.0 and 9.10.1.
    least = 91100 if capability == (10, 3) else 90600
    if version < least or version in (91000, 91001) or capability < (8, 0):
        return 0
    return 256 if capability[0] == 9 else 128


def takes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    window: int | None = None,
) -> bool:
    """Returns whether `attend` can compute a call, from what is known before it runs.

    A mask must be the same for all queries and heads, such as a padding mask, and there
    must be one device: JAX may split lengths in another way than the keys.
    """
    tensors = query, key, value
    if any(isinstance(x, keras.KerasTensor) for x in tensors) or is_exporting():
        return False
    sizes = [*query.shape, *key.shape, *value.shape]
    if not all(isinstance(n, int) and n > 0 for n in sizes):
        return False
    dtypes = {keras.backend.standardize_dtype(x.dtype) for x in tensors}
    queries, keys, width = query.shape[1], key.shape[1], query.shape[3]
    if len(dtypes) > 1 or not dtypes <= {*HALF} or width % 8 or width > widest():
        return False
    if query.shape[0] != key.shape[0] or key.shape != value.shape:
        return False
    if queries == 1:  # whose scores are few
        return False
    if mask is not None and (mask.shape[1:3] != (1, 1) or queries < FEWEST):
        return False
    if window is not None and not is_causal:
        return False
    if is_causal and queries != keys and not (mask is None and window is None):
        return False
    has_lengths = mask is not None or _needs_end(query, key, is_causal)
    return not (has_lengths and has_devices())


def _needs_end(query: Tensor, key: Tensor, is_causal: bool) -> bool:
    """Returns whether queries would see a key that makes an odd number even."""
    queries, keys = query.shape[1], key.shape[1]
    return keys % 2 == 1 and not (is_causal and queries <= keys)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float | Tensor,
    is_causal: bool,
    window: int | None = None,
) -> Tensor:
    """Computes `ops.dot_product_attention` of a call that `takes` allows."""
    query, key, value = (ops.convert_to_tensor(x) for x in (query, key, value))
    if not isinstance(scale, (int, float, np.number)):  # a tensor
        query, scale = (to_float32(query) * scale).astype(query.dtype), 1.0
    mask = None if mask is None else jnp.asarray(mask)  # perhaps a variable
    options = IMPLEMENTATION, float(scale), is_causal, window
    return _attend(*options, query, key, value, mask)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _attend(
    implementation: str,
    scale: float,
    is_causal: bool,
    window: int | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
) -> Tensor:
    before = None if window is None else (min(window, key.shape[1]) - 1, 0)
    fused = partial(
        jax.nn.dot_product_attention,
        scale=scale,
        is_causal=is_causal,
        local_window_size=before,
        implementation=implementation,
    )
    length, needs_end = query.shape[1], _needs_end(query, key, is_causal)
    visible = jnp.ones((1, 1), bool) if mask is None else mask[:, 0, 0]
    visible = jnp.broadcast_to(visible, key.shape[:2])  # (B, S)
    query, key, value, visible = (_even(x) for x in (query, key, value, visible))
    by_lengths = partial(_by_lengths, fused, window)
    if mask is not None and is_causal:
        is_at_end = jnp.all(visible[:, :-1] >= visible[:, 1:])  # the padding
        # A checkpoint, so that the gradient stores its arguments alone.
        by_chunks = jax.checkpoint(partial(_in_chunks, scale, window))
        out = lax.cond(is_at_end, by_lengths, by_chunks, query, key, value, visible)
    elif mask is not None:
        order = jnp.argsort(~visible, axis=1, stable=True)  # the valid keys first
        rows = jnp.arange(len(order))[:, None]
        key, value = (
            x.at[rows, order].get(mode="promise_in_bounds", unique_indices=True)
            for x in (key, value)
        )
        out = by_lengths(query, key, value, visible)
    elif needs_end:
        out = by_lengths(query, key, value, visible)
    else:
        query, key, value = _vectorized(query, key, value)
        zero = 0 * lax.stop_gradient(query.ravel()[0]).astype("int32")
        # The condition is always true, and gives the slope the axis of `jax.vmap`, too.
        out = jnp.where(zero == 0, fused(query, key, value), 0)
    return out[:, :length]


def _even(x: Tensor) -> Tensor:
    """Adds a query or key of zeros to an odd number, which JAX refuses in training."""
    if x.shape[1] % 2 == 0:
        return x
    return jnp.pad(x, [(0, int(axis == 1)) for axis in range(x.ndim)])


def _by_lengths(
    fused: Callable,
    window: int | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
) -> Tensor:
    """Computes attention to the first keys, as many as the mask (B, S) allows."""
    query, key, value, mask = _vectorized(query, key, value, mask)
    queries, lengths = query.shape[1], jnp.sum(mask, axis=1, dtype="int32")  # (B,)
    # In a window, queries far behind the last key see nothing.
    ends = queries if window is None else jnp.minimum(lengths + window - 1, queries)
    ends = jnp.where(lengths > 0, ends, 0).astype("int32")
    sees = jnp.arange(queries) < ends[:, None]  # (B, T)
    is_key = jnp.arange(key.shape[1]) < lengths[:, None]  # (B, S)
    # Behind the lengths, cuDNN may leave anything in the gradients.
    query, key, value = (
        jnp.where(valid[..., None, None], x, jnp.zeros_like(x))
        for x, valid in ((query, sees), (key, is_key), (value, is_key))
    )
    out = fused(
        query,
        key,
        value,
        query_seq_lengths=jnp.maximum(ends, 1),
        key_value_seq_lengths=jnp.maximum(lengths, 1),
    )
    return jnp.where(sees[..., None, None], out, jnp.zeros_like(out))


def _vectorized(*tensors: Tensor) -> list[Tensor]:
    """Gives all tensors an axis of `jax.vmap` if one has it, as JAX needs (jax 38495).

    The compiler removes the zeros that are added. The order stays.
    """
    first = (lax.stop_gradient(x.ravel()[0]).astype("int32") for x in tensors)
    zero = sum(0 * x for x in first)
    return [x + zero.astype(x.dtype) for x in tensors]


def _in_chunks(
    scale: float,
    window: int | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
) -> Tensor:
    """Computes causal attention with any mask (B, S), some queries at a time."""
    batch, queries, heads, width = query.shape
    keys = key.shape[1]
    size = min(max(1, CHUNK // (batch * heads * keys)), queries)
    count = math.ceil(queries / size)
    missing = [(0, count * size - queries if axis == 1 else 0) for axis in range(4)]
    q = jnp.pad(query, missing).reshape(batch, count, size, heads, width)
    places = jnp.arange(count * size).reshape(count, size, 1)
    s = jnp.arange(keys)

    def chunk(tensors: tuple[Tensor, Tensor]) -> Tensor:
        t, q = tensors
        visible = (s <= t) if window is None else (s <= t) & (t - s < window)
        visible = visible & mask[:, None, None]  # (B, 1, C, S)
        return reference.dot_product_attention(q, key, value, visible, scale, False)

    step = jax.checkpoint(chunk, prevent_cse=count == 1)
    out = lax.map(step, (places, jnp.moveaxis(q, 1, 0)))  # (·, B, C, H, E)
    out = jnp.moveaxis(out, 0, 1).reshape(batch, count * size, heads, width)
    return out[:, :queries]
