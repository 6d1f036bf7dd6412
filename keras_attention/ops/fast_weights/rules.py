"""Linear attention and the delta rule, step by step and over a sequence.

The memory of a head is a matrix S of D × V numbers, which a query reads: o = Sᵀ q. All
of it is computed in float32 (float64 for a float64 query), whatever the dtype of the
inputs. A masked step neither decays nor erases nor writes; its query reads the state as
it is.

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

    Reference:
        Katharopoulos et al., "Transformers are RNNs" (2020), section 3.4; fast weights:
        Schmidhuber, "Learning to control fast-weight memories" (1992); a decay of each
        channel, in chunks: Yang et al., "Gated linear attention Transformers with
        hardware-efficient training" (2024).
    """
    arguments = query, key, value, None, None, log_decay, mask, state
    return _run(arguments, chunk_size, normalize)


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
    """Computes one step of :func:`linear_attention`; no argument has the axis T.

    Returns the output (B, H, V) and the next state.
    """
    return _step((query, key, value, None, None, log_decay, mask, state), normalize)


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

    The erase strength e is (B, T, H) or (B, T, H, D), and the write strength w is
    (B, T, H) or (B, T, H, V). By default, w = e, which must then be (B, T, H). The
    other arguments and the results are those of :func:`linear_attention`.

    Raises:
        ValueError: as for linear attention, or if `write` is missing.

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
        networks" (2025); of each channel: Kimi Team, "Kimi Linear" (2025); separate
        strengths of each channel: Hatamizadeh et al., "Gated DeltaNet-2" (2026).
    """
    arguments = query, key, value, erase, write, log_decay, mask, state
    return _run(arguments, chunk_size)


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
    """Computes one step of :func:`delta_rule`; no argument has the axis T.

    Returns the output (B, H, V) and the next state.
    """
    return _step((query, key, value, erase, write, log_decay, mask, state))


def read(query: Tensor, state: Tensor, *, normalize: bool = False) -> Tensor:
    """Reads a state (B, H, D, V) with any number of queries (B, T, H, D), o = Sᵀ q.

    Returns (B, T, H, V), in the dtype of the query. With `normalize`, the state is that
    of :func:`linear_attention`, (B, H, D, V + 1).
    """
    q = to_float32(ops.convert_to_tensor(query))
    output = ops.einsum("bthd,bhdv->bthv", q, ops.cast(state, q.dtype))
    return _output(output, query.dtype, normalize)


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
    Weights can be negative, and need not sum to 1. They are computed as the outputs for
    values that are unit vectors, in a time that grows with T².

    The arguments are those of :func:`delta_rule`, or of :func:`linear_attention` if
    `erase` is None; `write` must be (B, T, H), and is `erase` or 1 by default. The
    weights are (B, H, T, T), in float32.

    Raises:
        ValueError: if the shapes do not fit each other, or `write` has channels.
    """
    _check("write", write, tuple(key.shape)[:3])
    query, key = (to_float32(ops.convert_to_tensor(x)) for x in (query, key))
    t = masks.positions(ops.shape(key)[1])
    unit = ops.cast(ops.equal(t[:, None, None], t), key.dtype)  # (T, 1, T)
    value = unit + ops.zeros_like(key[..., :1])  # (B, T, H, T)
    arguments = query, key, value, erase, write, log_decay, mask, None
    output, _ = _run(arguments, normalize=normalize)
    return ops.transpose(output, (0, 2, 1, 3))  # (B, H, T, T)


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
    all later steps have decayed it and erased from it. The arguments and errors are
    those of :func:`weights`; the keys (B, S, H, D) are float32.
    """
    _check("write", write, tuple(key.shape)[:3])
    ones = ops.ones_like(key[..., :1])
    _, k, w, e, g, _ = _inputs((key, key, ones, erase, write, log_decay, mask, None))
    return chunks.last_keys(k, w, e, g, _chunk_size(None, k.shape[1]))


def _run(
    arguments: tuple, chunk_size: int | None = None, normalize: bool = False
) -> tuple[Tensor, Tensor]:
    """Computes a rule over a sequence; see `_inputs` for the arguments."""
    q, k, v, e, g, state = _inputs(arguments, normalize)
    size = _chunk_size(chunk_size, k.shape[1])
    if k.shape[1] != 1:
        output, state = chunks.run((q, k, v, e, g, size), state)
        return _output(output, arguments[0].dtype, normalize), state
    q, k, v, e, g = chunks.each(lambda x: x[:, 0], q, k, v, e, g)
    if g is not None:
        state = ops.exp(g)[..., None] * state  # (B, H, D, V)
    if e is not None:
        v = v - ops.sum(state * e[..., None], axis=2)  # (B, H, V)
    state = state + k[..., None] * v[:, :, None]
    output = ops.sum(state * q[..., None], axis=2)[:, None]  # (B, 1, H, V)
    return _output(output, arguments[0].dtype, normalize), state


def _step(arguments: tuple, normalize: bool = False) -> tuple[Tensor, Tensor]:
    """Computes one step of a rule; no argument has the axis T."""
    *now, state = arguments
    now = chunks.each(lambda x: ops.convert_to_tensor(x)[:, None], *now)
    output, state = _run((*now, state), normalize=normalize)
    return output[:, 0], state


def _inputs(arguments: tuple, normalize: bool = False) -> Any:
    """Checks the arguments of a rule, and applies the strengths and the mask.

    Returns the query, the key, w ⊙ v, e ⊙ k or None, the log decay (B, T, H, 1 or D) or
    None, and the state, all in float32. With `normalize`, the values end in ones, whose
    sums are those of the keys.
    """
    query, key, value, erase, write, log_decay, mask, state = arguments
    if normalize:
        value = ops.convert_to_tensor(value)
        value = ops.concatenate([value, ops.ones_like(value[..., :1])], axis=-1)
    if write is None and erase is not None and len(erase.shape) == 4:
        raise ValueError(
            "`write` must be given where `erase` has channels. "
            f"Received: write=None, erase.shape={tuple(erase.shape)}"
        )
    write = erase if write is None else write
    shape = tuple(key.shape)
    if len(shape) != 4:
        raise ValueError(
            "`key` must have shape (batch, length, heads, width). "
            f"Received: key.shape={shape}"
        )
    heads = shape[:3]
    _check("query", query, shape)
    columns = value.shape[-1]
    _check("value", value, (*heads, columns))
    _check("erase", erase, heads, shape)
    _check("write", write, heads, (*heads, columns))
    _check("log_decay", log_decay, heads, shape)
    mask = masks.check("mask", mask, heads[:2])
    tensors: Any = query, key, value, erase, write, log_decay
    tensors = chunks.each(lambda x: to_float32(ops.convert_to_tensor(x)), *tensors)
    q, k, v, *gates = tensors
    e, w, g = chunks.each(lambda x: x if len(x.shape) == 4 else x[..., None], *gates)
    g = g if g is None else ops.maximum(g, -1e4)  # −∞, a = 0, would give 0 · ∞
    if mask is not None:
        valid = mask[:, :, None, None]
        k, v, e, w, g = chunks.each(lambda x: ops.where(valid, x, 0.0), k, v, e, w, g)
    if state is None:
        state = ops.zeros((ops.shape(k)[0], *shape[2:], ops.shape(v)[-1]), k.dtype)
    _check("state", state, (shape[0], *shape[2:], columns))
    v, e = v if w is None else w * v, e if e is None else e * k
    return q, k, v, e, g, ops.cast(state, k.dtype)


def _check(name: str, x: Any, *shapes: tuple) -> None:
    """Raises a ValueError if a tensor has none of the shapes; None is any size."""

    def fits(shape: tuple) -> bool:
        same = (a == b or None in (a, b) for a, b in zip(x.shape, shape))
        return len(x.shape) == len(shape) and all(same)

    if x is not None and not any(map(fits, shapes)):
        raise ValueError(
            f"`{name}` must have shape {' or '.join(map(str, shapes))}, to fit the "
            f"other arguments. Received: {name}.shape={tuple(x.shape)}"
        )


def _chunk_size(chunk_size: int | None, length: Any) -> int:
    """Returns the checked chunk size, or one that suits the checked length."""
    loop.check_length(length)
    known = isinstance(length, Integral)
    if chunk_size is None:
        return min(CHUNK, 1 << (int(length) - 1).bit_length()) if known else CHUNK
    whole = isinstance(chunk_size, Integral) and chunk_size > 0
    if not whole or chunk_size & (chunk_size - 1):
        raise ValueError(
            f"`chunk_size` must be a power of two. Received: chunk_size={chunk_size!r}"
        )
    if known and chunk_size > length:
        raise ValueError(
            "`chunk_size` must not exceed the length of the sequence. Received: "
            f"chunk_size={chunk_size}, a sequence of {length} steps"
        )
    return int(chunk_size)


def _output(output: Tensor, dtype: Any, normalize: bool) -> Tensor:
    """Divides an output by its last column, a sum, or gives 0 where it is 0; casts."""
    if normalize:
        total = output[..., -1:]
        empty = ops.equal(total, 0)
        output = output[..., :-1] / ops.where(empty, 1.0, total)
        output = ops.where(empty, 0.0, output)
    return ops.cast(output, dtype)
