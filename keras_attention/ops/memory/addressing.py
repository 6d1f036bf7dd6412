"""Addressing of an external memory: content, allocation, reading and writing.

This module holds the equations of the Differentiable Neural Computer (DNC) and of its
predecessor, the Neural Turing Machine, with the names and symbols of the papers. A step
of the DNC applies them in this order, with its temporal links from
:mod:`keras_attention.ops.memory.links`:

    ψ = retention            the fraction of each slot kept by the free gates
    u = usage                the usage of each slot
    a = allocations          the free slots to write to
    cʷ = content_weights     the similarity of slots to the write keys
    w = write_weights
    M = erase_and_write
    L, p = links, precedence
    f, b = directions        the slots written after and before the read slots
    cʳ = content_weights     the similarity of slots to the read keys
    wʳ = read_weights
    r = read

Results have the dtype of the arguments. Half precision is too coarse to accumulate
usage and links, so layers store them and the memory in float32.

Shapes: B batch, M memory slots, W word width, R read heads, H write heads; S shifts.

References:
    Graves et al., "Hybrid computing using a neural network with dynamic external
    memory" (2016), Nature 538, Methods.
    Graves, Wayne & Danihelka, "Neural Turing Machines" (2014), arXiv:1410.5401.
    Csordás & Schmidhuber, "Improving differentiable neural computers through memory
    masking, de-allocation, and link distribution sharpness control" (2019),
    arXiv:1904.10278.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.kernels.memory_step import reference

Tensor = Any

EPSILON = reference.EPSILON
"""Added under square roots; also the smallest usage that differs from 0."""


def content_weights(
    memory: Tensor,
    keys: Tensor,
    strengths: Tensor,
    key_mask: Tensor | None = None,
    epsilon: float = EPSILON,
) -> Tensor:
    """Computes content-based addressing: the similarity of slots to a key.

        C(M, k, β)[i] = softmaxᵢ(β D(k, M[i, ·])),
        D(k, m) = k · m / (√(|k|² + ε) √(|m|² + ε))

    ε keeps the gradient finite and correct at empty slots and a key of zeros. A mask z
    applies to key and slot, D(k ∘ z, m ∘ z): a key may ignore parts of a word.

    Args:
        memory: M, (B, M, W).
        keys: k, (B, R, W), one per head.
        strengths: β, (B, R), at least 0.
        key_mask: z, (B, R, W), between 0 and 1: masked content-based addressing.
        epsilon: ε, a number above 0.

    Returns:
        (B, R, M), positive; each row sums to 1.

    Raises:
        ValueError: if ε is not above 0.

    References:
        Graves et al. (2016), "Content-based addressing".
        Csordás & Schmidhuber (2019), section 3.1, for the mask.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attention.ops import addressing
    >>> w = addressing.content_weights(
    ...     ops.eye(3)[None], ops.eye(3)[None, 1:2], 20.0 * ops.ones((1, 1)))
    >>> np.asarray(w)[0, 0].round(4).tolist()
    [0.0, 1.0, 0.0]
    """
    if not epsilon > 0:
        raise ValueError(f"`epsilon` must be above 0. Received: epsilon={epsilon}")
    memory, keys, strengths = map(ops.convert_to_tensor, (memory, keys, strengths))
    return reference.content_weights(memory, keys, strengths, key_mask, epsilon).weights


def retention(free_gates: Tensor, read_weights: Tensor) -> Tensor:
    """Computes ψ, the fraction of each slot that is kept after it was read.

        ψ = ∏ᵣ (1 − f[r] wʳ[r, ·])

    Args:
        free_gates: f, (B, R), between 0 and 1.
        read_weights: wʳ of the previous step, (B, R, M).

    Returns:
        ψ, (B, M), between 0 and 1.

    Reference:
        Graves et al. (2016), "Dynamic memory allocation".
    """
    return reference.retention(*map(ops.convert_to_tensor, (free_gates, read_weights)))


def usage(previous: Tensor, write_weights: Tensor, retention: Tensor) -> Tensor:
    """Computes u, the usage of each slot after the previous write and read.

        u = (u + ω − u ∘ ω) ∘ ψ,  ω = 1 − ∏ₕ (1 − w[h, ·])

    With one write head, ω equals the write weights of this head.

    Args:
        previous: u of the previous step, (B, M), between 0 and 1.
        write_weights: w of the previous step, (B, H, M).
        retention: ψ, (B, M).

    Returns:
        u, (B, M), between 0 and 1.

    Reference:
        Graves et al. (2016), "Dynamic memory allocation"; several heads as in its code.
    """
    arrays = map(ops.convert_to_tensor, (previous, write_weights, retention))
    return reference.update_usage(*arrays)


def allocation_weights(usage: Tensor) -> Tensor:
    """Computes the allocation weights a, which prefer the least used slots.

        φ = slots by ascending usage,  a[φⱼ] = (1 − u[φⱼ]) ∏_{i<j} u[φᵢ]

    Slots of equal usage are ordered by their index. Gradients treat the order as
    constant. They are finite and correct at usages of 0, of 1 and equal ones. The usage
    is clipped to at least 1e-6.

    Args:
        usage: u, (B, M), between 0 and 1.

    Returns:
        a, (B, M), at least 0, with sum 1 − ∏ᵢ u[i]; all 0 if no slot is free.

    Reference:
        Graves et al. (2016), "Dynamic memory allocation".

    Example:

    >>> from keras import ops
    >>> from keras_attention.ops import addressing
    >>> a = addressing.allocation_weights(ops.array([[0.5, 1.0, 0.2]]))
    >>> [round(float(x), 4) for x in a[0]]
    [0.1, 0.0, 0.8]
    """
    return reference.allocation_weights(usage)[0]


def allocations(
    usage: Tensor, write_gates: Tensor, strengths: Tensor | None = None
) -> Tensor:
    """Computes the allocation weights of several write heads, one after another.

    The slots that a head is about to write to count as used for later heads:

        aₕ = allocation(uₕ),  uₕ₊₁ = uₕ + (1 − uₕ) g[h] aₕ

    Args:
        usage: u, (B, M).
        write_gates: g = gʷ gᵃ, the gate of each head for allocated slots, (B, H).
        strengths: β, (B, H), for `soft_allocation`; None for `allocation_weights`.

    Returns:
        (B, H, M).

    Reference:
        The code of Graves et al. (2016), `addressing.Freeness`.
    """
    return reference.allocations(usage, write_gates, strengths)[0]


def soft_allocation(usage: Tensor, strength: Tensor) -> Tensor:
    """Computes allocation weights without sorting: softmax(β (1 − u)).

    The weights always sum to 1, even if no slot is free.

    Args:
        usage: u, (B, M).
        strength: β, (B,), at least 0.

    Returns:
        (B, M).

    Reference:
        Ben-Ari & Bekker, "Differentiable memory allocation mechanism for neural
        computing" (2017).
    """
    return reference.soft_allocation(usage, strength)


def write_weights(
    content: Tensor, allocation: Tensor, write_gate: Tensor, allocation_gate: Tensor
) -> Tensor:
    """Computes w, the write weights.

        w = gʷ (gᵃ a + (1 − gᵃ) cʷ)

    Args:
        content: cʷ, (B, H, M).
        allocation: a, (B, H, M).
        write_gate: gʷ, (B, H), between 0 and 1.
        allocation_gate: gᵃ, (B, H), between 0 and 1.

    Returns:
        (B, H, M), at least 0; each row sums to at most 1.

    Reference:
        Graves et al. (2016), "Dynamic memory allocation".
    """
    arrays = (content, allocation, write_gate, allocation_gate)
    return reference.write_weights(*map(ops.convert_to_tensor, arrays))


def erase_and_write(
    memory: Tensor, weights: Tensor, erase: Tensor, values: Tensor
) -> Tensor:
    """Updates the memory: all heads erase, then all heads write.

        M = M ∘ ∏ₕ (1 − w[h] e[h]ᵀ) + Σₕ w[h] v[h]ᵀ

    Args:
        memory: M, (B, M, W).
        weights: w, (B, H, M).
        erase: e, (B, H, W), between 0 and 1.
        values: v, (B, H, W).

    Returns:
        (B, M, W).

    Reference:
        Graves et al. (2016), "Reading and writing to memory"; heads as in its code.
    """
    arrays = (memory, weights, erase, values)
    return reference.erase_and_write(*map(ops.convert_to_tensor, arrays))


def deallocate(memory: Tensor, retention: Tensor) -> Tensor:
    """Erases freed slots before the write: M ∘ ψ 1ᵀ.

    Args:
        memory: M, (B, M, W).
        retention: ψ, (B, M).

    Returns:
        (B, M, W).

    Reference:
        Csordás & Schmidhuber (2019), section 3.2.
    """
    return reference.deallocate(*map(ops.convert_to_tensor, (memory, retention)))


def read_weights(
    modes: Tensor, backward: Tensor, content: Tensor, forward: Tensor
) -> Tensor:
    """Computes wʳ, the read weights.

        wʳ = Σₕ π[h] b[h] + π[H] c + Σₕ π[H + 1 + h] f[h]

    Args:
        modes: π, (B, R, 1 + 2H), on the simplex: backward, content, forward.
        backward: b, (B, R, H, M).
        content: cʳ, (B, R, M).
        forward: f, (B, R, H, M).

    Returns:
        (B, R, M).

    Reference:
        Graves et al. (2016), "Read weighting".
    """
    arrays = (modes, backward, content, forward)
    return reference.read_weights(*map(ops.convert_to_tensor, arrays))


def read(memory: Tensor, weights: Tensor) -> Tensor:
    """Computes r = Mᵀ w, the words read.

    Args:
        memory: M, (B, M, W).
        weights: wʳ, (B, R, M).

    Returns:
        (B, R, W).
    """
    return ops.matmul(weights, memory)


def sharpen(weights: Tensor, power: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Computes S, sharpened weights that sum to 1.

        S(d, s)[i] = ((d[i] + ε) / max(d + ε))ˢ / Σⱼ ((d[j] + ε) / max(d + ε))ˢ

    The code computes the softmax of s ln(d + ε), which is equal.

    Args:
        weights: d, (..., M), at least 0.
        power: s, (...), at least 0.
        epsilon: ε.

    Returns:
        (..., M), with sum 1; uniform if d is 0 everywhere.

    Reference:
        Csordás & Schmidhuber (2019), section 3.3.
    """
    weights, power = map(ops.convert_to_tensor, (weights, power))
    return reference.sharpen(weights, power, epsilon)


def interpolate(content: Tensor, previous: Tensor, gate: Tensor) -> Tensor:
    """Interpolates between content weights and previous weights: g c + (1 − g) w.

    Args:
        content: c, (B, R, M).
        previous: w of the previous step, (B, R, M).
        gate: g, (B, R), between 0 and 1.

    Returns:
        (B, R, M).

    Reference:
        Graves, Wayne & Danihelka (2014), equation 7.
    """
    arrays = (content, previous, gate)
    content, previous, gate = map(ops.convert_to_tensor, arrays)
    return previous + ops.expand_dims(gate, -1) * (content - previous)


def shift(weights: Tensor, shifts: Tensor) -> Tensor:
    """Shifts weights along the slots by a circular convolution.

        w̃[i] = Σⱼ w[j] s[i − j]  (indices modulo M)

    Args:
        weights: w, (B, R, M).
        shifts: s, (B, R, S), S odd: weights of shifts by −(S − 1)/2 … (S − 1)/2.

    Returns:
        (B, R, M). The sum of each row is unchanged if the shifts sum to 1.

    Raises:
        ValueError: if S is even.

    Reference:
        Graves, Wayne & Danihelka (2014), equation 8.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attention.ops import addressing
    >>> w = addressing.shift(
    ...     ops.array([[[0.0, 0.0, 1.0]]]), ops.array([[[0.0, 0.25, 0.75]]]))
    >>> np.asarray(w)[0, 0].tolist()
    [0.75, 0.0, 0.25]
    """
    number = shifts.shape[-1]
    if number % 2 == 0:
        raise ValueError(
            "`shifts` must be odd in number, as many back as forward. "
            f"Received: shifts of shape {tuple(shifts.shape)}"
        )
    moved = 0
    for k in range(number):
        rolled = ops.roll(weights, k - number // 2, axis=-1)
        moved = moved + ops.expand_dims(shifts[..., k], -1) * rolled
    return moved


def sharpened(weights: Tensor, gamma: Tensor) -> Tensor:
    """Raises weights to the power γ and normalizes them: w[i]^γ / Σⱼ w[j]^γ.

    Args:
        weights: w, (B, R, M), at least 0.
        gamma: γ, (B, R), at least 1.

    Returns:
        (B, R, M). Gradients are finite even where a weight is 0.

    Reference:
        Graves, Wayne & Danihelka (2014), equation 9.
    """
    return sharpen(weights, gamma, epsilon=1e-16)
