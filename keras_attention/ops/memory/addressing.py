"""An external memory: where to look in it, where to write, what is free.

The equations of the Differentiable Neural Computer, and those of the Neural Turing
Machine, whose elder it is, under the names and with the symbols of the papers. A step
of the DNC takes them in this order, with its temporal links from
:mod:`keras_attention.ops.memory.links`:

    ψ = retention            what the free gates let go of
    u = usage                how much each slot is in use
    a = allocations          where there is room
    cʷ = content_weights     which slots are like the key to write at
    w = write_weights
    M = erase_and_write
    L, p = links, precedence
    f, b = directions        what was written after, and before, what was read
    cʳ = content_weights     which slots are like the keys to read at
    wʳ = read_weights
    r = read

Everything is in the dtype of its arguments. Half precision holds neither usage nor
links for long: layers keep them, and the memory, in float32.

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
"""Added to squares before their root, and the least usage that is told from none."""


def content_weights(
    memory: Tensor, keys: Tensor, strengths: Tensor, key_mask: Tensor | None = None
) -> Tensor:
    """Content-based addressing: which slots are like a key.

        C(M, k, β)[i] = softmaxᵢ(β D(k, M[i, ·])),
        D(k, m) = k · m / (√(|k|² + ε) √(|m|² + ε)),  ε = 1e-6

    The ε under the roots keeps the gradient finite, and right, at empty slots and at a
    key of zeros. With a mask both are masked, D(k ∘ z, m ∘ z), so that a key may leave
    open what it looks for.

    Args:
        memory: M, (B, M, W).
        keys: k, (B, R, W), one for each head.
        strengths: β, (B, R), at least 0.
        key_mask: z, (B, R, W), between 0 and 1: masked content-based addressing.

    Returns:
        (B, R, M), positive, each row of sum 1.

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
    return reference.content_weights(memory, keys, strengths, key_mask).weights


def retention(free_gates: Tensor, read_weights: Tensor) -> Tensor:
    """ψ: how much of each slot is not freed after it was read.

        ψ = ∏ᵣ (1 − f[r] wʳ[r, ·])

    Args:
        free_gates: f, (B, R), between 0 and 1.
        read_weights: wʳ of the step before, (B, R, M).

    Returns:
        ψ, (B, M), between 0 and 1.

    Reference:
        Graves et al. (2016), "Dynamic memory allocation".
    """
    return reference.retention(free_gates, read_weights)


def usage(previous: Tensor, write_weights: Tensor, retention: Tensor) -> Tensor:
    """u: how much each slot is in use, after the writing and the freeing before.

        u = (u + ω − u ∘ ω) ∘ ψ,  ω = 1 − ∏ₕ (1 − w[h, ·])

    With one write head ω is its weighting.

    Args:
        previous: u of the step before, (B, M), between 0 and 1.
        write_weights: w of the step before, (B, H, M).
        retention: ψ, (B, M).

    Returns:
        u, (B, M), between 0 and 1.

    Reference:
        Graves et al. (2016), "Dynamic memory allocation"; several heads as in its code.
    """
    previous = ops.convert_to_tensor(previous)
    return reference.update_usage(previous, write_weights, retention)


def allocation_weights(usage: Tensor) -> Tensor:
    """a: where there is room, the least used slot first.

        φ = slots by rising usage,  a[φⱼ] = (1 − u[φⱼ]) ∏_{i<j} u[φᵢ]

    Slots of the same usage count by their index. Gradients hold the order fixed; they
    are finite, and right, also where usage is 0, 1 or equal. Usage counts as at least
    1e-6.

    Args:
        usage: u, (B, M), between 0 and 1.

    Returns:
        a, (B, M), at least 0, of sum 1 − ∏ᵢ u[i]: 0 everywhere where no slot is free.

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
    """Where there is room for each of several write heads, one after another.

    What a head is about to write there counts as used for those after it:

        aₕ = allocation(uₕ),  uₕ₊₁ = uₕ + (1 − uₕ) g[h] aₕ

    Args:
        usage: u, (B, M).
        write_gates: g = gʷ gᵃ, how far each head writes where there is room, (B, H).
        strengths: β, (B, H), of `soft_allocation`; where they are left out it goes by
            order (`allocation_weights`).

    Returns:
        (B, H, M).

    Reference:
        The code of Graves et al. (2016), `addressing.Freeness`.
    """
    return reference.allocations(usage, write_gates, strengths)[0]


def soft_allocation(usage: Tensor, strength: Tensor) -> Tensor:
    """Where there is room, without sorting: softmax(β (1 − u)).

    Its sum is always 1, whether a slot is free or not.

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
    """w: where to write.

        w = gʷ (gᵃ a + (1 − gᵃ) cʷ)

    Args:
        content: cʷ, (B, H, M).
        allocation: a, (B, H, M).
        write_gate: gʷ, (B, H), between 0 and 1.
        allocation_gate: gᵃ, (B, H), between 0 and 1.

    Returns:
        (B, H, M), at least 0, each row of sum at most 1.

    Reference:
        Graves et al. (2016), "Dynamic memory allocation".
    """
    return reference.write_weights(content, allocation, write_gate, allocation_gate)


def erase_and_write(
    memory: Tensor, weights: Tensor, erase: Tensor, values: Tensor
) -> Tensor:
    """The memory after each head has erased, and then each has written.

        M = M ∘ ∏ₕ (1 − w[h] e[h]ᵀ) + Σₕ w[h] v[h]ᵀ

    Args:
        memory: M, (B, M, W).
        weights: w, (B, H, M).
        erase: e, (B, H, W), between 0 and 1.
        values: v, (B, H, W).

    Returns:
        (B, M, W).

    Reference:
        Graves et al. (2016), "Reading and writing to memory"; several heads as in its
        code.
    """
    return reference.erase_and_write(memory, weights, erase, values)


def deallocate(memory: Tensor, retention: Tensor) -> Tensor:
    """The memory without what was freed: M ∘ ψ 1ᵀ, before it is written to.

    Args:
        memory: M, (B, M, W).
        retention: ψ, (B, M).

    Returns:
        (B, M, W).

    Reference:
        Csordás & Schmidhuber (2019), section 3.2.
    """
    return reference.deallocate(memory, retention)


def read_weights(
    modes: Tensor, backward: Tensor, content: Tensor, forward: Tensor
) -> Tensor:
    """wʳ: where to read.

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
    return reference.read_weights(modes, backward, content, forward)


def read(memory: Tensor, weights: Tensor) -> Tensor:
    """r = Mᵀ w: the words that were read.

    Args:
        memory: M, (B, M, W).
        weights: wʳ, (B, R, M).

    Returns:
        (B, R, W).
    """
    return reference.read(memory, weights)


def sharpen(weights: Tensor, power: Tensor, epsilon: float = EPSILON) -> Tensor:
    """S: a weighting made sharper, and of sum 1 again.

        S(d, s)[i] = ((d[i] + ε) / max(d + ε))ˢ / Σⱼ ((d[j] + ε) / max(d + ε))ˢ

    It is computed as the softmax of s ln(d + ε), which is the same.

    Args:
        weights: d, (..., M), at least 0.
        power: s, (...), at least 0.
        epsilon: ε.

    Returns:
        (..., M), of sum 1; uniform where d is 0 everywhere.

    Reference:
        Csordás & Schmidhuber (2019), section 3.3.
    """
    return reference.sharpen(weights, power, epsilon)


def interpolate(content: Tensor, previous: Tensor, gate: Tensor) -> Tensor:
    """Between where the content says and where the head was: g c + (1 − g) w.

    Args:
        content: c, (B, R, M).
        previous: w of the step before, (B, R, M).
        gate: g, (B, R), between 0 and 1.

    Returns:
        (B, R, M).

    Reference:
        Graves, Wayne & Danihelka (2014), equation 7.
    """
    return previous + gate[..., None] * (content - previous)


def shift(weights: Tensor, shifts: Tensor) -> Tensor:
    """A weighting moved along the slots, round and round.

        w̃[i] = Σⱼ w[j] s[i − j]  (indices modulo M)

    Args:
        weights: w, (B, R, M).
        shifts: s, (B, R, S), S odd: how much to move by −(S − 1)/2 … (S − 1)/2 slots.

    Returns:
        (B, R, M), of the same sum where the shifts' sum is 1.

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
            "`shifts` must be odd in number, as many back as ahead. "
            f"Received: shifts of shape {tuple(shifts.shape)}"
        )
    moved = 0
    for k in range(number):
        rolled = ops.roll(weights, k - number // 2, axis=-1)
        moved = moved + shifts[..., k, None] * rolled
    return moved


def sharpened(weights: Tensor, gamma: Tensor) -> Tensor:
    """A weighting to the power of γ, and of sum 1 again: w[i]^γ / Σⱼ w[j]^γ.

    Args:
        weights: w, (B, R, M), at least 0.
        gamma: γ, (B, R), at least 1.

    Returns:
        (B, R, M); gradients are finite where a weight is 0.

    Reference:
        Graves, Wayne & Danihelka (2014), equation 9.
    """
    return sharpen(weights, gamma, epsilon=1e-16)
