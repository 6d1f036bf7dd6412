"""Choices among keys: made at random, and how a gradient gets past them.

A choice has no gradient of its own. :func:`straight_through` takes that of the
probabilities for it; :func:`reinforce` raises the log-probability of choices that cost
less than others.

Shapes: B batch, T queries, S keys.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.numerics.precision import lowest, wide
from keras_attention.ops.sequence import decoding

Tensor = Any


def choose(chances: Tensor, uniforms: Tensor | None = None) -> Tensor:
    """One key of each row, drawn as often as its chance says, or the likeliest.

    Args:
        chances: p, (..., S), at least 0; they need not sum to one.
        uniforms: (...), in [0, 1), one number for each row; None for the first of
            the greatest chances.

    Returns:
        (..., S), of the chances' dtype and without a gradient: 1 at the chosen key, 0
        elsewhere. A key whose chance is 0 is never chosen, so a row without any chance
        is all 0.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import choices
    >>> p = np.array([[0.25, 0.0, 0.75]], "float32")
    >>> [np.asarray(choices.choose(p, np.array([u], "float32")))[0].tolist()
    ...  for u in (0.2, 0.3)]
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    p = ops.stop_gradient(ops.convert_to_tensor(chances))
    size = ops.shape(p)[-1]
    if uniforms is None:
        index = ops.cast(ops.argmax(p, axis=-1), "int32")
    else:
        rows = ops.reshape(p, (-1, size))
        index = decoding.draw(rows, ops.reshape(uniforms, (-1,)))
        index = ops.reshape(index, ops.shape(p)[:-1])
    is_chosen = ops.equal(ops.arange(size, dtype="int32"), index[..., None])
    return ops.cast(ops.logical_and(is_chosen, p > 0), p.dtype)  # (..., S)


def straight_through(chances: Tensor, choice: Tensor) -> Tensor:
    """The choice, with the gradient of the probabilities.

    Args:
        chances: p, (..., S), such as a softmax.
        choice: 0 or 1, (..., S).

    Returns:
        (..., S): exactly the choice.

    Reference:
        Bengio, Léonard & Courville, "Estimating or propagating gradients through
        stochastic neurons for conditional computation" (2013).
    """
    return choice + (chances - ops.stop_gradient(chances))


def log_probability(
    scores: Tensor, choice: Tensor, mask: Tensor | None = None
) -> Tensor:
    """log softmax(scores) at what was chosen.

    Args:
        scores: (..., S).
        choice: 0 or 1, (..., S).
        mask: booleans that broadcast to the scores, True = may be chosen; or None.

    Returns:
        (...), in float32 at least; 0, without a gradient, where nothing was chosen.
    """
    z = wide(scores)
    if mask is not None:
        z = ops.where(mask, z, lowest(z.dtype))
    logs = z - ops.logsumexp(z, axis=-1, keepdims=True)
    return ops.sum(ops.stop_gradient(ops.cast(choice, z.dtype)) * logs, axis=-1)


def carry(choice: Tensor, logs: Tensor) -> Tensor:
    """The choice, with the gradient of its log-probability.

    Summed over the keys, and less its own value, it is what `reinforce` takes: 0, with
    the gradient of the log-probability. So weights can bring it to a loss.

    Args:
        choice: 0 or 1, (..., S).
        logs: the log-probabilities of what was chosen, (...).

    Returns:
        (..., S): exactly the choice.
    """
    return choice * (1 + (logs - ops.stop_gradient(logs)))[..., None]


def reinforce(cost: Tensor, logs: Tensor, baseline: Any = 0.0) -> Tensor:
    """A cost with the gradient of its expectation over choices.

        value    = cost
        gradient = ∂cost + (cost − b) ∂log p

    Averaged over draws, the gradient is that of the expected cost, whatever the
    baseline, if it does not depend on the choice that it is for; a good one makes the
    average converge faster.

    Args:
        cost: (B, ...), such as −log p(y).
        logs: log p of what was chosen, (B, ...); only its gradient counts.
        baseline: b, of the cost's shape, such as `leave_one_out(cost)`.

    Returns:
        (B, ...): exactly the cost.

    Reference:
        Williams, "Simple statistical gradient-following algorithms for connectionist
        reinforcement learning" (1992); Xu et al., "Show, attend and tell" (2015),
        section 4.1.
    """
    advantage = ops.stop_gradient(cost - baseline)
    return cost + advantage * (logs - ops.stop_gradient(logs))


def leave_one_out(cost: Tensor) -> Tensor:
    """What the other samples of the batch cost on average: a baseline.

        b_i = Σ_{j ≠ i} cost_j / (B − 1)

    It depends on no choice of sample i, if samples do not depend on each other (as they
    do behind batch normalization), and so leaves the gradient's mean as it is.

    Args:
        cost: (B, ...).

    Returns:
        (B, ...), 0 for a single sample.

    Reference:
        Kool, van Hoof & Welling, "Buy 4 REINFORCE samples, get a baseline for free!"
        (2019), of several draws for one sample.
    """
    others = ops.cast(ops.maximum(ops.shape(cost)[0] - 1, 1), cost.dtype)
    return (ops.sum(cost, axis=0, keepdims=True) - cost) / others
