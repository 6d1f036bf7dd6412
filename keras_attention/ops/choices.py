"""Random choices among keys, and gradient estimators for them.

A discrete choice has no gradient. :func:`straight_through` uses the gradient of the
probabilities instead. :func:`reinforce` raises the log-probability of choices that cost
less than others.

Shapes: B batch, T queries, S keys.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.numerics import masks, normalizers
from keras_attention.numerics.precision import to_float32
from keras_attention.ops.sequence import decoding

Tensor = Any


def choose(probabilities: Tensor, uniforms: Tensor | None = None) -> Tensor:
    """Samples one key per row, or selects the most probable key.

    Args:
        probabilities: p, (..., S), non-negative; they need not sum to one.
        uniforms: (...), in [0, 1), one number per row; None selects the key with the
            largest p, the first one in a tie.

    Returns:
        (..., S), in the dtype of `probabilities`, without a gradient: 1 at the chosen
        key, 0 elsewhere. A key with p = 0 is never chosen, so a row of zeros stays 0.
        NaN stays NaN.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import choices
    >>> p = np.array([[0.25, 0.0, 0.75]], "float32")
    >>> [np.asarray(choices.choose(p, np.array([u], "float32")))[0].tolist()
    ...  for u in (0.2, 0.3)]
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    p = ops.stop_gradient(ops.convert_to_tensor(probabilities))
    size = ops.shape(p)[-1]
    if uniforms is None:
        is_chosen = normalizers.first_largest(p)
    else:
        rows = ops.reshape(p, (-1, size))
        index = decoding.draw(rows, ops.reshape(uniforms, (-1,)))
        index = ops.reshape(index, ops.shape(p)[:-1])
        is_chosen = ops.equal(masks.positions(size), ops.expand_dims(index, -1))
    choice = ops.cast(ops.logical_and(is_chosen, p > 0), p.dtype)  # (..., S)
    return ops.where(ops.isnan(p), p, choice)


def straight_through(probabilities: Tensor, choice: Tensor) -> Tensor:
    """Returns the choice, with the gradient of the probabilities.

    Args:
        probabilities: p, (..., S), such as the output of a softmax.
        choice: 0 or 1, (..., S).

    Returns:
        (..., S), equal to `choice`.

    Reference:
        Bengio, Léonard & Courville, "Estimating or propagating gradients through
        stochastic neurons for conditional computation" (2013).
    """
    return choice + (probabilities - ops.stop_gradient(probabilities))


def log_probability(
    scores: Tensor, choice: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Computes log softmax(scores) of the chosen key.

    Args:
        scores: (..., S).
        choice: 0 or 1, (..., S).
        mask: booleans that broadcast to the scores, True = may be chosen; or None.

    Returns:
        (...), in float32 or float64; 0 without a gradient where no key was chosen.
    """
    z = to_float32(scores)
    if mask is not None:
        z = normalizers.hide(z, mask)
    logs = z - ops.logsumexp(z, axis=-1, keepdims=True)
    chosen = ops.stop_gradient(ops.cast(choice, z.dtype))
    logs = ops.where(chosen == 0, ops.zeros_like(logs), logs)  # 0 times −∞ is NaN
    return ops.sum(chosen * logs, axis=-1)


def carry(choice: Tensor, logs: Tensor) -> Tensor:
    """Returns the choice, with the gradient of its log-probability.

    Let s be the sum of the result over the keys. Then s minus the value of s is 0 and
    has the gradient of the log-probability. `reinforce` expects such a term, so the
    attention weights can carry it to a loss.

    Args:
        choice: 0 or 1, (..., S).
        logs: the log-probabilities of the chosen keys, (...).

    Returns:
        (..., S), equal to `choice`.
    """
    return choice * (1 + (logs - ops.stop_gradient(logs)))[..., None]


def reinforce(cost: Tensor, logs: Tensor, baseline: Any = 0.0) -> Tensor:
    """Returns the cost, with a gradient estimate of its expectation over choices.

        value    = cost
        gradient = ∂cost + (cost − b) ∂log p

    The estimate is unbiased for any baseline that does not depend on the choice. A good
    baseline reduces its variance.

    Args:
        cost: (B, ...), such as −log p(y).
        logs: log p of the chosen keys, (B, ...); only its gradient is used.
        baseline: b, in the shape of `cost`, such as `leave_one_out(cost)`.

    Returns:
        (B, ...), equal to `cost`.

    Reference:
        Williams, "Simple statistical gradient-following algorithms for connectionist
        reinforcement learning" (1992); Xu et al., "Show, attend and tell" (2015),
        section 4.1.
    """
    advantage = ops.stop_gradient(cost - baseline)
    return cost + advantage * (logs - ops.stop_gradient(logs))


def leave_one_out(cost: Tensor, counts: Tensor | None = None) -> Tensor:
    """Computes a baseline: the mean cost of the other samples in the batch.

        b_i = Σ_{j ≠ i} cost_j / (B − 1)

    The baseline of sample i does not depend on its own choice, so the gradient stays
    unbiased. This holds only for independent samples, not after batch normalization.

    Args:
        cost: (B, ...).
        counts: 1 for the costs that belong to the mean and 0 for the others, in the
            shape of `cost`; None if all belong to it.

    Returns:
        (B, ...), 0 where no other sample has a cost.

    Reference:
        Kool, van Hoof & Welling, "Buy 4 REINFORCE samples, get a baseline for free!"
        (2019), for several choices per sample.
    """
    counts = ops.ones_like(cost) if counts is None else counts
    cost = cost * counts
    others = ops.sum(counts, axis=0, keepdims=True) - counts
    total = ops.sum(cost, axis=0, keepdims=True) - cost
    return ops.where(others > 0, total / ops.maximum(others, 1), 0)
