"""Fast weights over a whole sequence, in chunks.

In a chunk of C steps that begins with the state S, with the cumulative decays
Γₜ = a₁ ⊙ … ⊙ aₜ, the state after step t is

    Sₜ = Γₜ ⊙ S + Σᵢ≤ₜ (Γₜ / Γᵢ ⊙ kᵢ) rᵢᵀ

in which rₜ = vₜ − (aₜ ⊙ Sₜ₋₁)ᵀ eₜ is what step t writes for key kₜ, erase key eₜ and
written value vₜ. The rows rₜ solve a triangular system:

    (I + A) R = V − (Γ ⊙ E) S,    Aₜᵢ = eₜᵀ (Γₜ / Γᵢ ⊙ kᵢ) for i < t, else 0

Shapes: N chunks, B batch, H heads, C steps of a chunk, D width of a key, V width of a
value, X = N·B·H.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention.ops.sequence import loop

Tensor = Any


def each(function: Callable, *tensors: Any) -> list:
    """Applies a function to all tensors that are not None."""
    return [x if x is None else function(x) for x in tensors]


def _by_halves(rows: Tensor, key: Tensor, log_decay: Tensor) -> tuple:
    """Returns rowₜᵀ (Γₜ / Γᵢ ⊙ kᵢ) for i ≤ t, and the sums before and after each step.

    Between the halves of a chunk, Γₜ / Γᵢ is the product of the decays from i to the
    middle and from the middle to t. No exponent is positive.

    The rows are (X, R, C, D), the products (X, R, C, C), and all others (X, C, D).
    """
    size = key.shape[1]
    if size == 1:
        products = ops.sum(rows * key[:, None], axis=-1, keepdims=True)
        return products, log_decay, ops.zeros_like(log_decay)
    half, count, width = size // 2, rows.shape[1], rows.shape[3]

    def halved(x: Tensor, axis: int) -> Tensor:  # (X, ..., C, D) to (2X, ..., C/2, D)
        return ops.concatenate(ops.split(x, 2, axis=axis), axis=0)

    products, before, after = _by_halves(
        halved(rows, 2), halved(key, 1), halved(log_decay, 1)
    )
    first, last = ops.split(products, 2, axis=0)  # (X, R, C/2, C/2)
    early, late = ops.split(before, 2, axis=0)
    until_middle, until_end = ops.split(after, 2, axis=0)
    later = rows[:, :, half:] * ops.exp(late)[:, None]  # (X, R, C/2, D)
    keys = ops.swapaxes(key[:, :half] * ops.exp(until_middle), 1, 2)  # (X, D, C/2)
    across = ops.matmul(ops.reshape(later, (-1, count * half, width)), keys)
    across = ops.reshape(across, (-1, count, half, half))
    return (
        _lower_blocks(first, across, last),
        ops.concatenate([early, late + early[:, -1:]], axis=1),
        ops.concatenate([until_middle + late[:, -1:], until_end], axis=1),
    )


def _lower_blocks(first: Tensor, across: Tensor, last: Tensor) -> Tensor:
    """Returns [[first, 0], [across, last]] of blocks (..., C/2, C/2)."""
    top = ops.concatenate([first, ops.zeros_like(first)], axis=-1)
    return ops.concatenate([top, ops.concatenate([across, last], axis=-1)], axis=-2)


def _inverse(a: Tensor) -> Tensor:
    """Returns (I + A)⁻¹ for strictly lower triangular A (X, C, C), C a power of two.

        [[I + A₁, 0], [B, I + A₂]]⁻¹ = [[X₁, 0], [−X₂ B X₁, X₂]]

    Halving needs no powers of A, whose entries grow to 10¹⁷ for 64 equal keys.
    """
    size = a.shape[1]
    if size <= 2:
        return ops.eye(size, dtype=a.dtype) - a
    half = size // 2
    halves = ops.concatenate([a[:, :half, :half], a[:, half:, half:]], axis=0)
    first, last = ops.split(_inverse(halves), 2, axis=0)
    across = -ops.matmul(ops.matmul(last, a[:, half:, :half]), first)
    return _lower_blocks(first, across, last)


class Chunks(NamedTuple):
    """All chunks of a sequence, prepared for the loop."""

    query: Tensor | None  # Γ ⊙ Q, (X, C, D)
    key: Tensor  # (Γ_C / Γᵢ ⊙ kᵢ)ᵀ, (X, D, C)
    value: Tensor  # (I + A)⁻¹ V, (X, C, V)
    erase: Tensor | None  # (I + A)⁻¹ (Γ ⊙ E), (X, C, D)
    reading: Tensor | None  # qₜᵀ (Γₜ / Γᵢ ⊙ kᵢ) for i ≤ t, else 0, (X, C, C)
    solution: Tensor | None  # (I + A)⁻¹, (X, C, C)
    decay: Tensor | None  # Γ_C, (X, 1 or D, 1)
    stack: Any  # a function from (X, ·, ·) to (N, B, H, ·, ·)
    merge: Any  # a function from (X, C, ·) to (B, T, H, ·)


def prepare(
    query: Any, key: Tensor, value: Tensor, erase: Any, log_decay: Any, chunk_size: int
) -> Chunks:
    """Computes all that does not depend on the state.

    Args:
        query: (B, T, H, D), or None.
        key: (B, T, H, D).
        value: the written values w ⊙ v, (B, T, H, V).
        erase: the erase keys e ⊙ k, (B, T, H, D), or None.
        log_decay: (B, T, H, 1) or (B, T, H, D), or None.
        chunk_size: C, a power of two.
    """
    (batch, length), heads = ops.shape(key)[:2], key.shape[2]
    count = (length + chunk_size - 1) // chunk_size
    padding = count * chunk_size - length

    def split(x: Tensor) -> Tensor:  # (B, T, H, ·) to (X, C, ·)
        if not isinstance(padding, int) or padding:
            x = ops.pad(x, ((0, 0), (0, padding), (0, 0), (0, 0)))
        x = ops.reshape(x, (batch, count, chunk_size, heads, ops.shape(x)[-1]))
        x = ops.transpose(x, (1, 0, 3, 2, 4))  # (N, B, H, C, ·)
        return ops.reshape(x, (-1, chunk_size, ops.shape(x)[-1]))

    def stack(x: Tensor) -> Tensor:
        return ops.reshape(x, (count, batch, heads, *ops.shape(x)[1:]))

    def merge(x: Tensor) -> Tensor:  # (X, C, ·) to (B, T, H, ·)
        x = ops.transpose(stack(x), (1, 0, 3, 2, 4))  # (B, N, C, H, ·)
        return ops.reshape(x, (batch, -1, heads, ops.shape(x)[-1]))[:, :length]

    q, k, v, e, g = each(split, query, key, value, erase, log_decay)
    rows = [x for x in (q, e) if x is not None]
    decay = solution = None
    if g is not None and g.shape[-1] != 1:
        stacked = ops.stack(rows or [k], axis=1)  # (X, 1 or 2, C, D)
        products, before, after = _by_halves(stacked, k, g)
        products = [products[:, n] for n in range(len(rows))]
    else:
        products = [ops.matmul(x, ops.swapaxes(k, 1, 2)) for x in rows]  # (X, C, C)
    if g is not None and g.shape[-1] == 1:
        # A difference of cumulative sums would be inexact after a strong decay.
        ones = ops.ones((chunk_size, chunk_size), g.dtype)
        sums = ops.matmul(ops.tril(ones), g * ops.tril(ones, -1))  # i < j ≤ t
        factors = ops.exp(sums)
        products = [x * factors for x in products]
        before = sums[:, :, :1] + g[:, :1]  # (X, C, 1)
        after = ops.swapaxes(sums[:, -1:], 1, 2)  # (X, C, 1)
    if g is not None:
        until = ops.exp(before)  # Γ, (X, C, 1 or D)
        q, e = each(lambda x: x * until, q, e)
        k = k * ops.exp(after)
        decay = ops.swapaxes(until[:, -1:], 1, 2)  # (X, 1 or D, 1)
    k = ops.swapaxes(k, 1, 2)  # (X, D, C)
    if e is not None:
        solution = _inverse(ops.tril(products[-1], -1))
        v, e = ops.matmul(solution, v), ops.matmul(solution, e)
    reading = None if q is None else ops.tril(products[0])
    return Chunks(q, k, v, e, reading, solution, decay, stack, merge)


def run(arguments: tuple, state: Tensor) -> tuple[Tensor, Tensor]:
    """Computes all steps of a sequence in chunks, for the arguments of `prepare`.

    Returns the outputs (B, T, H, V) and the state (B, H, D, V) after the last step.
    """
    c = prepare(*arguments)
    changes = [c.key, c.value, c.erase, c.decay]
    if c.erase is None:  # what is written does not depend on the state
        changes[:2] = [None, ops.matmul(c.key, c.value)]  # (X, D, V)
    named = {n: c.stack(x) for n, x in zip("kved", changes) if x is not None}

    def next_chunk(state: Tensor, now: dict) -> tuple[Tensor, tuple]:
        decayed = now["d"] * state if "d" in now else state
        if c.erase is None:
            return decayed + now["v"], (state,)
        written = now["v"] - ops.matmul(now["e"], state)  # (B, H, C, V)
        return decayed + ops.matmul(now["k"], written), (state, written)

    last, outputs = _scan(next_chunk, state, named)
    starts, *written = (ops.reshape(x, (-1, *ops.shape(x)[3:])) for x in outputs)
    (written,) = written or (c.value,)
    output = ops.matmul(c.query, starts) + ops.matmul(c.reading, written)
    return c.merge(output), last


def last_keys(
    key: Tensor, write: Tensor, erase: Any, log_decay: Any, chunk_size: int
) -> Tensor:
    """Returns the keys k̂ (B, T, H, D); see `rules.last_keys` and `prepare`."""
    c = prepare(None, key, write, erase, log_decay, chunk_size)
    k, transition = c.key, c.decay  # (X, D, C)
    identity = ops.ones((1, 1), key.dtype)
    if erase is not None:
        identity = ops.eye(key.shape[3], dtype=key.dtype)
        decays = identity if transition is None else identity * transition
        transition = decays - ops.matmul(k, c.erase)  # P, (X, D, D)
        k = ops.matmul(k, c.solution)
    if transition is not None:
        transition = ops.flip(c.stack(transition), axis=0)  # (N, B, H, ·, ·)

        def earlier(later: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
            return (later * p if erase is None else ops.matmul(later, p)), later

        _, later = _scan(earlier, identity * ops.ones_like(transition[0]), transition)
        later = ops.reshape(ops.flip(later, axis=0), (-1, *later.shape[3:]))
        k = later * k if erase is None else ops.matmul(later, k)
    return c.merge(ops.swapaxes(k, 1, 2)) * write


def _scan(step: Any, state: Tensor, inputs: Any) -> tuple[Tensor, Any]:
    """Scans over chunks; a single chunk needs no loop."""
    tree = keras.tree
    if tree.flatten(inputs)[0].shape[0] != 1:
        return loop.scan(step, state, inputs)
    state, output = step(state, tree.map_structure(lambda x: x[0], inputs))
    return state, tree.map_structure(lambda x: x[None], output)
