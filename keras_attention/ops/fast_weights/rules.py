"""Linear attention and the delta rule, step by step and over a sequence.

The memory of a head is a matrix S of D × V numbers. A step with key k, value v and
query q changes it and reads it:

    S ← a ⊙ S                          decays (with `log_decay`, log a)
    S ← S − k ((e ⊙ k)ᵀ S)             erases what key k holds (with `erase`, e)
    S ← S + k (w ⊙ v)ᵀ                 writes the value for key k (with `write`, w)
    o = Sᵀ q

Linear attention decays and writes. The delta rule also erases: with e = w = 1 and a key
of length 1, the memory then returns v for k, whatever was there before.

A decay is a number of each head, (B, T, H), or of each channel of the key, (B, T, H,
D). An erase strength is likewise a number of each head or of each channel of the key,
and a write strength of each head or of each channel of the value, (B, T, H, V).

All of it is computed in float32 (float64 for a float64 query), whatever the dtype of
the inputs. A masked step neither decays nor erases nor writes; its query reads the
state as it is.

Shapes: B batch, T steps, H heads, D width of a key, V width of a value.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

from keras import ops

from keras_attention.numerics import masks
from keras_attention.numerics.precision import to_float32
from keras_attention.ops.fast_weights import chunks
from keras_attention.ops.sequence import loop

Tensor = Any
CHUNK = 64


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_decay: Tensor | None = None,
    *,
    normalize: bool = False,
    mask: Tensor | None = None,
    state: Tensor | None = None,
    chunk_size: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes causal linear attention in chunks.

        Sₜ = aₜ ⊙ Sₜ₋₁ + kₜ vₜᵀ
        oₜ = Sₜᵀ qₜ                     with `normalize`, divided by qₜᵀ Σᵢ≤ₜ kᵢ

    Queries and keys are features φ(q) and φ(k): apply the feature map before. With
    decays, the sum of the keys decays, too.

    Args:
        query: (B, T, H, D).
        key: (B, T, H, D).
        value: (B, T, H, V).
        log_decay: log a ≤ 0, (B, T, H) or (B, T, H, D); None for no decay.
        normalize: whether to divide by the sum of the weights. Features must then not
            be negative. A query whose sum is 0 gets 0.
        mask: booleans (B, T), True = the step is valid.
        state: (B, H, D, V), the memory before the first step; 0 by default. With
            `normalize`, (B, H, D, V + 1): the last column is the sum of the keys.
        chunk_size: the number of steps computed together, a power of two of at most T.
            By default 64, or less for a shorter sequence. It affects speed only.

    Returns:
        The outputs (B, T, H, V) in the dtype of the query, and the state after the
        last step, with the shape of `state`, in float32.

    Raises:
        ValueError: if the shapes do not fit each other, or `chunk_size` is no power of
            two or exceeds T.

    Example:

    >>> import numpy as np
    >>> from keras_attention import ops
    >>> x = np.ones((1, 3, 1, 2), "float32")
    >>> output, state = ops.linear_attention(x, x, x)
    >>> np.asarray(output)[0, :, 0, 0].tolist()
    [2.0, 4.0, 6.0]
    >>> tuple(state.shape)
    (1, 1, 2, 2)

    Reference:
        Katharopoulos et al., "Transformers are RNNs: fast autoregressive transformers
        with linear attention" (2020), section 3.4; fast weights: Schmidhuber,
        "Learning to control fast-weight memories" (1992); a decay of each channel, in
        chunks: Yang et al., "Gated linear attention Transformers with
        hardware-efficient training" (2024).
    """
    value = _with_ones(value) if normalize else value
    tensors = query, key, value, None, None, log_decay, mask, state
    return _run(*tensors, chunk_size, normalize)


def linear_attention_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor,
    log_decay: Tensor | None = None,
    *,
    normalize: bool = False,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes one step of :func:`linear_attention`.

    Args:
        query: (B, H, D).
        key: (B, H, D).
        value: (B, H, V).
        state: (B, H, D, V), or (B, H, D, V + 1) with `normalize`.
        log_decay: (B, H) or (B, H, D); None for no decay.
        normalize: see :func:`linear_attention`.
        mask: booleans (B,), True = the step is valid.

    Returns:
        The output (B, H, V) and the next state.
    """
    value = _with_ones(value) if normalize else value
    return _step(query, key, value, state, None, None, log_decay, mask, normalize)


def delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    erase: Tensor,
    write: Tensor | None = None,
    log_decay: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    state: Tensor | None = None,
    chunk_size: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes the delta rule, with or without decay, in chunks.

        S̃ₜ = aₜ ⊙ Sₜ₋₁
        Sₜ = S̃ₜ − kₜ (eₜ ⊙ kₜ)ᵀ S̃ₜ + kₜ (wₜ ⊙ vₜ)ᵀ
        oₜ = Sₜᵀ qₜ

    With equal strengths β of each head, this is Sₜ = S̃ₜ + β kₜ (vₜ − S̃ₜᵀ kₜ)ᵀ, a step
    of gradient descent on |Sᵀ kₜ − vₜ|² / 2. Keys should have length 1: for longer
    keys, the steps can diverge.

    Args:
        query: (B, T, H, D).
        key: (B, T, H, D), usually of length 1.
        value: (B, T, H, V).
        erase: the erase strength e, (B, T, H) or (B, T, H, D).
        write: the write strength w, (B, T, H) or (B, T, H, V). By default that of
            `erase`, which must then be (B, T, H).
        log_decay: log a ≤ 0, (B, T, H) or (B, T, H, D); None for no decay.
        mask: booleans (B, T), True = the step is valid.
        state: (B, H, D, V), the memory before the first step; 0 by default.
        chunk_size: the number of steps computed together, a power of two of at most T.
            By default 64, or less for a shorter sequence. It affects speed only.

    Returns:
        The outputs (B, T, H, V) in the dtype of the query, and the state (B, H, D, V)
        after the last step, in float32.

    Raises:
        ValueError: if the shapes do not fit each other, `write` is missing, or
            `chunk_size` is no power of two or exceeds T.

    Example:

    >>> import numpy as np
    >>> from keras_attention import ops
    >>> key = np.ones((1, 2, 1, 1), "float32")
    >>> value = np.array([3.0, 5.0], "float32").reshape(1, 2, 1, 1)
    >>> output, _ = ops.delta_rule(key, key, value, np.ones((1, 2, 1), "float32"))
    >>> np.asarray(output).ravel().tolist()
    [3.0, 5.0]

    Reference:
        Widrow & Hoff, "Adaptive switching circuits" (1960); in fast weights: Schlag et
        al., "Linear Transformers are secretly fast weight programmers" (2021); in
        chunks: Yang et al., "Parallelizing linear Transformers with the delta rule over
        sequence length" (2024); with a decay of each head: Yang et al., "Gated Delta
        networks: improving Mamba2 with delta rule" (2025); of each channel: Kimi Team,
        "Kimi Linear: an expressive, efficient attention architecture" (2025); separate
        strengths of each channel: Hatamizadeh et al., "Gated DeltaNet-2: decoupling
        erase and write in linear attention" (2026).
    """
    return _run(query, key, value, erase, write, log_decay, mask, state, chunk_size)


def delta_rule_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor,
    erase: Tensor,
    write: Tensor | None = None,
    log_decay: Tensor | None = None,
    *,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes one step of :func:`delta_rule`.

    Args:
        query: (B, H, D).
        key: (B, H, D).
        value: (B, H, V).
        state: (B, H, D, V).
        erase: (B, H) or (B, H, D).
        write: (B, H) or (B, H, V); see :func:`delta_rule`.
        log_decay: (B, H) or (B, H, D); None for no decay.
        mask: booleans (B,), True = the step is valid.

    Returns:
        The output (B, H, V) and the next state.
    """
    return _step(query, key, value, state, erase, write, log_decay, mask)


def read(query: Tensor, state: Tensor, *, normalize: bool = False) -> Tensor:
    """Reads a state with any number of queries, o = Sᵀ q.

    Args:
        query: (B, T, H, D).
        state: (B, H, D, V), or (B, H, D, V + 1) with `normalize`.
        normalize: see :func:`linear_attention`.

    Returns:
        (B, T, H, V), in the dtype of the query.
    """
    q, dtype = to_float32(ops.convert_to_tensor(query)), query.dtype
    output = ops.einsum("bthd,bhdv->bthv", q, ops.cast(state, q.dtype))
    return ops.cast(_normalized(output) if normalize else output, dtype)


def weights(
    query: Tensor,
    key: Tensor,
    erase: Tensor | None = None,
    write: Tensor | None = None,
    log_decay: Tensor | None = None,
    *,
    normalize: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """Returns the weights with which the rules sum the values from a state of 0.

        weights = (Q Kᵀ ⊙ decays) (I + A)⁻¹ diag(w)

    where Aₜᵢ is (eₜ ⊙ kₜ)ᵀ kᵢ times the decay between i < t. Without `erase`, A is 0.
    Weights can be negative, and need not sum to 1. Time grows with T³: this is for
    looking at a memory, not for training.

    Args:
        query: (B, T, H, D).
        key: (B, T, H, D).
        erase: as for :func:`delta_rule`; None for linear attention.
        write: (B, T, H), by default `erase`, or 1 without it.
        log_decay: (B, T, H) or (B, T, H, D); None for no decay.
        normalize: see :func:`linear_attention`.
        mask: booleans (B, T), True = the step is valid.

    Returns:
        (B, H, T, T) in float32.

    Raises:
        ValueError: if the shapes do not fit each other, or `write` has channels.
    """
    q, k, w, e, g = _without_values(query, key, erase, write, log_decay, mask)
    (batch, length), heads = ops.shape(k)[:2], k.shape[2]
    loop.check_length(k.shape[1])
    size = chunks.power_of_two(k.shape[1])

    def whole(x: Tensor | None) -> Tensor | None:  # (B, T, H, ·) to (B·H, C, ·)
        if x is None:
            return None
        x = ops.pad(x, ((0, 0), (0, size - length), (0, 0), (0, 0)))
        return ops.reshape(ops.swapaxes(x, 1, 2), (-1, size, x.shape[-1]))

    pair = chunks.pairs(*(whole(x) for x in (q, k, e, g)))
    products = pair.reading  # (B·H, C, C)
    if e is not None:
        products = ops.matmul(products, chunks.inverse(pair.erasing))
    products = products * ops.swapaxes(whole(w), 1, 2)
    products = ops.reshape(products, (batch, heads, size, size))[:, :, :length, :length]
    if normalize:
        products = _divided(products, ops.sum(products, axis=-1, keepdims=True))
    return products


def last_keys(
    key: Tensor,
    erase: Tensor | None = None,
    write: Tensor | None = None,
    log_decay: Tensor | None = None,
    *,
    mask: Tensor | None = None,
) -> Tensor:
    """Returns the keys k̂ for which the state after all steps is Σ k̂ᵢ vᵢᵀ.

    A query q that reads this state gives value i the weight qᵀ k̂ᵢ. k̂ᵢ is wᵢ kᵢ after
    all later steps have decayed it and erased from it.

    Args:
        key: (B, S, H, D).
        erase: as for :func:`delta_rule`; None for linear attention.
        write: (B, S, H), by default `erase`, or 1 without it.
        log_decay: (B, S, H) or (B, S, H, D); None for no decay.
        mask: booleans (B, S), True = the step is valid.

    Returns:
        (B, S, H, D) in float32.

    Raises:
        ValueError: if the shapes do not fit each other, or `write` has channels.
    """
    _, k, w, e, g = _without_values(key, key, erase, write, log_decay, mask)
    loop.check_length(k.shape[1])
    return chunks.last_keys(k, w, e, g, _chunk_size(None, k.shape[1]))


def _without_values(
    query: Tensor, key: Tensor, erase: Any, write: Any, log_decay: Any, mask: Any
) -> tuple[Any, ...]:
    """Returns the query, the key, w (B, T, H, 1), e ⊙ k or None, and the log decay."""
    write = erase if write is None else write
    if write is not None and len(write.shape) == 4:
        raise ValueError(
            "`write` must have shape (batch, length, heads): with a strength of each "
            "channel, each channel of the values has weights of its own. "
            f"Received: write.shape={tuple(write.shape)}"
        )
    ones = ops.ones_like(key[..., :1])
    return _prepared(query, key, ones, erase, write, log_decay, mask, None)[:5]


def _run(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    erase: Tensor | None,
    write: Tensor | None,
    log_decay: Tensor | None,
    mask: Tensor | None,
    state: Tensor | None,
    chunk_size: int | None,
    normalize: bool = False,
) -> tuple[Tensor, Tensor]:
    """Computes a rule over a sequence; without `erase`, that of linear attention."""
    q, k, v, e, g, state = _prepared(
        query, key, value, erase, write, log_decay, mask, state
    )
    loop.check_length(k.shape[1])
    size = _chunk_size(chunk_size, k.shape[1])
    output, state = chunks.run(q, k, v, e, g, state, size)
    output = _normalized(output) if normalize else output
    return ops.cast(output, query.dtype), state


def _step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor,
    erase: Tensor | None,
    write: Tensor | None,
    log_decay: Tensor | None,
    mask: Tensor | None,
    normalize: bool = False,
) -> tuple[Tensor, Tensor]:
    """Computes one step of a rule; without `erase`, that of linear attention."""
    dtype = query.dtype
    tensors = (query, key, value, erase, write, log_decay, mask)
    tensors = (
        None if x is None else ops.expand_dims(ops.convert_to_tensor(x), 1)
        for x in tensors
    )
    q, k, v, e, g, state = _prepared(*tensors, state)
    q, k, v = q[:, 0], k[:, 0], v[:, 0]
    if g is not None:
        state = ops.exp(g[:, 0])[..., None] * state
    if e is not None:
        v = v - ops.sum(state * e[:, 0, :, :, None], axis=2)  # (B, H, V)
    state = state + k[..., None] * v[:, :, None]  # (B, H, D, V)
    output = ops.sum(state * q[..., None], axis=2)  # (B, H, V)
    return ops.cast(_normalized(output) if normalize else output, dtype), state


def _prepared(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    erase: Tensor | None,
    write: Tensor | None,
    log_decay: Tensor | None,
    mask: Tensor | None,
    state: Tensor | None,
) -> tuple[Any, ...]:
    """Checks all tensors of a rule, and applies the strengths and the mask.

    Returns:
        The query, the key, w ⊙ v, e ⊙ k or None, the log decay (B, T, H, 1 or D) or
        None, and the state, all in float32.
    """
    if erase is not None and write is None:
        if len(erase.shape) == 4:
            raise ValueError(
                "`write` must be given with an `erase` strength of each channel. "
                f"Received: erase.shape={tuple(erase.shape)}, write=None"
            )
        write = erase
    _check_shapes(query, key, value, erase, write, log_decay)
    named = (query, key, value, erase, write, log_decay)
    q, k, v, e, w, g = (
        None if x is None else to_float32(ops.convert_to_tensor(x)) for x in named
    )
    e, w, g = (
        x[..., None] if x is not None and len(x.shape) == 3 else x for x in (e, w, g)
    )
    mask = masks.check("mask", mask, tuple(k.shape[:2]))
    if mask is not None:
        valid = ops.cast(mask, "bool")[:, :, None, None]
        k, v = ops.where(valid, k, 0.0), ops.where(valid, v, 0.0)
        g = None if g is None else ops.where(valid, g, 0.0)
        e = None if e is None else ops.where(valid, e, 0.0)
        w = None if w is None else ops.where(valid, w, 0.0)
    shape = (ops.shape(k)[0], *k.shape[2:], v.shape[3])
    if state is None:
        state = ops.zeros(shape, k.dtype)
    else:
        _check("state", state, (k.shape[0], *shape[1:]))
        state = ops.cast(state, k.dtype)
    return q, k, v if w is None else w * v, None if e is None else e * k, g, state


def _check_shapes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    erase: Tensor | None,
    write: Tensor | None,
    log_decay: Tensor | None,
) -> None:
    shape = tuple(key.shape)
    if len(shape) != 4:
        raise ValueError(
            "`key` must have shape (batch, length, heads, width). "
            f"Received: key.shape={shape}"
        )
    _check("query", query, shape)
    _check("value", value, (*shape[:3], None))
    per_head, per_value = shape[:3], (*shape[:3], value.shape[-1])
    for name, x, other in (
        ("erase", erase, shape),
        ("write", write, per_value),
        ("log_decay", log_decay, shape),
    ):
        if x is not None:
            _check(name, x, per_head if len(x.shape) == 3 else other, per_head)


def _check(name: str, x: Tensor, shape: tuple, or_shape: tuple | None = None) -> None:
    """Raises a ValueError for another shape; None is any size."""
    received = tuple(x.shape)
    fits = len(received) == len(shape) and all(
        None in (a, b) or a == b for a, b in zip(received, shape)
    )
    if not fits:
        forms = [shape] if or_shape in (None, shape) else [or_shape, shape]
        raise ValueError(
            f"`{name}` must have shape {' or '.join(map(str, forms))} to fit the keys "
            f"and values. Received: {name}.shape={received}"
        )


def _chunk_size(chunk_size: int | None, length: Any) -> int:
    """Returns the checked chunk size, or one that suits the length."""
    known = isinstance(length, Integral)
    if chunk_size is None:
        return min(CHUNK, chunks.power_of_two(length)) if known else CHUNK
    whole = isinstance(chunk_size, Integral) and chunk_size > 0
    if not whole or chunks.power_of_two(chunk_size) != chunk_size:
        raise ValueError(
            f"`chunk_size` must be a power of two. Received: chunk_size={chunk_size!r}"
        )
    if known and chunk_size > length:
        raise ValueError(
            "`chunk_size` must not exceed the length of the sequence. Received: "
            f"chunk_size={chunk_size}, a sequence of {length} steps"
        )
    return int(chunk_size)


def _with_ones(value: Tensor) -> Tensor:
    """Appends a column of ones, whose sums are those of the keys."""
    value = ops.convert_to_tensor(value)
    return ops.concatenate([value, ops.ones_like(value[..., :1])], axis=-1)


def _normalized(output: Tensor) -> Tensor:
    """Divides an output (..., V + 1) by its last column, the sum of the weights."""
    return _divided(output[..., :-1], output[..., -1:])


def _divided(x: Tensor, total: Tensor) -> Tensor:
    """Returns x / total, and 0 where the total is 0."""
    empty = ops.equal(total, 0)
    return ops.where(empty, 0.0, x / ops.where(empty, 1.0, total))
