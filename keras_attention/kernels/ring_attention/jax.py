"""Ring attention on JAX.

Each of n devices holds T/n queries and S/n keys. In n steps, the keys, values and masks
go round the devices, and each device adds to the softmax of its queries. A step
processes its queries in chunks, so no device stores T/n · S/n scores. The gradient goes
round once more: it recomputes the weights, and the gradients of keys and values travel
with them. Maximum, sum and output are kept in float32 or wider.

Only the axis of the sequence is manual: XLA may split samples and heads over other axes
of the mesh.

Shapes: N chunks, B batch, C queries of a chunk, S keys of a device, G heads of keys, R
query heads per head of keys, E width of a head, V width of a value.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
from jax import lax
from jax import numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from keras_attention.kernels.placement.jax import jax_mesh, to_mesh

Tensor = Any
CHUNK = 32  # queries; as fast as 64 and 128 on a CPU, with less memory


class _Ring(NamedTuple):
    mesh: Mesh
    axis: str
    scale: float
    is_causal: bool

    @property
    def size(self) -> int:
        return self.mesh.shape[self.axis]

    def split(self, function: Any) -> Any:
        """Returns a function that each device computes for its part of the sequence.

        All arguments and results are split along axis 1.
        """
        return jax.shard_map(
            function,
            mesh=self.mesh,
            in_specs=PartitionSpec(None, self.axis),
            out_specs=PartitionSpec(None, self.axis),
            axis_names={self.axis},
            check_vma=False,
        )

    def pass_on(self, moving: Any) -> Any:
        """Sends tensors to the next device, and receives those of the previous one."""
        pairs = [(i, (i + 1) % self.size) for i in range(self.size)]
        return jax.tree.map(lambda x: lax.ppermute(x, self.axis, pairs), moving)

    def positions(self, length: int, step: Any = 0) -> Tensor:
        """Returns the positions of the `length` entries that are here in a step."""
        owner = (lax.axis_index(self.axis) - step) % self.size
        return owner * length + jnp.arange(length)


def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    mesh: Any,
    axis: str,
) -> Tensor:
    """See :func:`keras_attention.ops.ring_attention`; the mask broadcasts to (B, S)."""
    mask = jnp.broadcast_to(True if mask is None else mask, key.shape[:2])
    mesh = jax_mesh(mesh, "`ring_attention`")
    ring = _Ring(mesh, axis, float(scale), bool(is_causal))
    tensors = (jnp.asarray(x) for x in (query, key, value, mask))
    return _compiled(ring, *(to_mesh(x, mesh, None, axis) for x in tensors))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(ring: _Ring, *tensors: Tensor) -> Tensor:
    return ring.split(partial(_forward, ring))(*tensors)[0]


def _attention_forward(ring: _Ring, *tensors: Tensor) -> tuple[Tensor, Any]:
    output, log_sums = ring.split(partial(_forward, ring))(*tensors)
    return output, (*tensors, output, log_sums)


def _attention_backward(ring: _Ring, stored: Any, slope: Tensor) -> Any:
    return *ring.split(partial(_backward, ring))(*stored, slope), None


_attention.defvjp(_attention_forward, _attention_backward)
_compiled = jax.jit(_attention, static_argnums=0)


def _forward(
    ring: _Ring, query: Tensor, key: Tensor, value: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the output and the logarithms of the sums (B, T/n, H), per device."""
    queries, groups = query.shape[1], key.shape[2]
    tiles = _chunks(query, groups)  # (N, B, C, G, R, E)
    wide = jnp.promote_types(query.dtype, "float32")
    at = _chunks(ring.positions(queries)[None, :])[:, 0]  # (N, C)
    most = jnp.full(tiles.shape[:-1], -jnp.inf, wide)
    start = (
        most,
        jnp.zeros_like(most),
        jnp.zeros((*most.shape, value.shape[-1]), wide),
    )

    def add(step: Any, state: Any, moving: Any) -> Any:
        k, v, seen = moving
        keys_at = ring.positions(k.shape[1], step)

        def of_chunk(chunk: Any, state: Any) -> Any:
            (q, q_at), (most, total, output) = chunk, state
            allowed = _allowed(ring, seen, q_at, keys_at)
            scores = jnp.where(allowed, _scores(ring, q, k), -jnp.inf)
            new = jnp.maximum(most, scores.max(-1))
            finite = jnp.where(new == -jnp.inf, 0, new)
            weights = jnp.exp(scores - finite[..., None])
            old = jnp.exp(most - finite)
            added = _product("bcgrs,bsgv->bcgrv", weights.astype(v.dtype), v)
            output = output * old[..., None] + added
            return new, total * old + weights.sum(-1), output

        return _updated(of_chunk, (tiles, at), state)

    def step(i: Any, carry: Any) -> Any:
        state, moving = carry
        return add(i, state, moving), ring.pass_on(moving)

    moving = key, value, mask
    (most, total, output), _ = lax.fori_loop(0, ring.size, step, (start, moving))
    some = total != 0
    output = output / jnp.where(some, total, 1)[..., None]
    log_sums = jnp.where(some, most + jnp.log(jnp.where(some, total, 1)), 0)
    output = _joined(output, queries).astype(value.dtype)
    return output, _joined(log_sums[..., None], queries)[..., 0]


def _backward(
    ring: _Ring,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    output: Tensor,
    log_sums: Tensor,
    slope: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of query, key and value, per device."""
    queries, groups = query.shape[1], key.shape[2]
    wide = log_sums.dtype
    shares = (output.astype(wide) * slope.astype(wide)).sum(-1)  # (B, T/n, H)
    tiles = (
        *(_chunks(query, groups), _chunks(slope, groups)),
        _chunks(log_sums[..., None], groups)[..., 0],
        _chunks(shares[..., None], groups)[..., 0],
        _chunks(ring.positions(queries)[None, :])[:, 0],
    )

    def step(i: Any, carry: Any) -> Any:
        dq, moving = carry
        k, v, seen, dk, dv = moving
        keys_at = ring.positions(k.shape[1], i)

        def of_chunk(slopes: Any, chunk: Any) -> Any:
            dk, dv = slopes
            (q, do, log_sum, share, q_at), dq = chunk
            allowed = _allowed(ring, seen, q_at, keys_at)
            scores = jnp.where(allowed, _scores(ring, q, k), -jnp.inf)
            weights = jnp.exp(scores - log_sum[..., None])
            dv += _product("bcgrs,bcgrv->bsgv", weights.astype(do.dtype), do)
            through = _product("bcgrv,bsgv->bcgrs", do, v) - share[..., None]
            ds = (weights * through * ring.scale).astype(q.dtype)
            dq += _product("bcgrs,bsge->bcgre", ds, k)
            dk += _product("bcgrs,bcgre->bsge", ds, q)
            return (dk, dv), dq

        slopes, dq = lax.scan(of_chunk, (dk, dv), (tiles, dq))
        return dq, ring.pass_on((k, v, seen, *slopes))

    zeros = [jnp.zeros(x.shape, wide) for x in (tiles[0], key, value)]
    moving = key, value, mask, *zeros[1:]
    # After n steps, the gradients of keys and values are at home again.
    dq, (*_, dk, dv) = lax.fori_loop(0, ring.size, step, (zeros[0], moving))
    gradients = zip((_joined(dq, queries), dk, dv), (query, key, value))
    return tuple(dx.astype(x.dtype) for dx, x in gradients)


def _scores(ring: _Ring, query: Tensor, key: Tensor) -> Tensor:
    return _product("bcgre,bsge->bcgrs", query, key) * ring.scale


def _product(equation: str, x: Tensor, y: Tensor) -> Tensor:
    wide = jnp.promote_types(jnp.result_type(x, y), "float32")
    return jnp.einsum(equation, x, y, preferred_element_type=wide)


def _allowed(ring: _Ring, mask: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Returns which keys the queries of a chunk may attend to, (B, C, 1, 1, S)."""
    allowed = mask[:, None, None, None, :]
    if ring.is_causal:
        allowed &= (keys <= queries[:, None])[None, :, None, None, :]
    return allowed


def _chunks(x: Tensor, groups: int | None = None) -> Tensor:
    """Cuts (B, T, ...) into (N, B, C, ...), and heads into groups; the rest is 0."""
    batch, length, *others = x.shape
    size = min(CHUNK, length)
    padding = [(0, 0)] * x.ndim
    padding[1] = 0, -length % size
    if groups is not None:
        others = [groups, others[0] // groups, *others[1:]]
    x = jnp.pad(x, padding).reshape(batch, -1, size, *others)
    return jnp.moveaxis(x, 1, 0)


def _updated(function: Any, chunks: Any, state: Any) -> Any:
    """Replaces the state of each chunk in place, unlike `jax.lax.map`."""

    def update(i: Any, state: Any) -> Any:
        chunk, old = jax.tree.map(lambda x: x[i], (chunks, state))
        new = function(chunk, old)
        return jax.tree.map(lambda x, y: x.at[i].set(y), state, new)

    return lax.fori_loop(0, len(jax.tree.leaves(state)[0]), update, state)


def _joined(x: Tensor, length: int) -> Tensor:
    """Joins (N, B, C, G, R, V) into (B, T, H, V)."""
    _, batch, _, groups, shared, width = x.shape
    x = jnp.moveaxis(x, 0, 1).reshape(batch, -1, groups * shared, width)
    return x[:, :length]
