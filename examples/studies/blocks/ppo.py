"""Proximal policy optimization: advantages and the loss.

Shapes: N episodes, T steps; (...) any leading axes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention.datasets.blocks.vectors import ACTIONS

PACKED = 5  # action, log probability, advantage, return, weight


class Estimates(NamedTuple):
    """Estimates from episodes.

    Attributes:
        advantages: (N, T) float32, 0 after the end.
        returns: (N, T) float32, the targets of the critic, 0 after the end.
    """

    advantages: np.ndarray
    returns: np.ndarray


def estimates(
    rewards: np.ndarray, values: np.ndarray, valid: np.ndarray, decay: float
) -> Estimates:
    """Computes generalized advantage estimates without discounting.

        δₜ = rₜ + Vₜ₊₁ − Vₜ,  Aₜ = Σₖ λᵏ δₜ₊ₖ,  returns Aₜ + Vₜ

    Args:
        rewards: (N, T).
        values: (N, T), the critic's values.
        valid: (N, T) bool, True for the steps of an episode. It starts with True. The
            value after the last of them is 0.
        decay: λ, from 0 to 1.

    Reference:
        Schulman et al., "High-dimensional continuous control using generalized
        advantage estimation" (2015), equation 16; also Graves et al. (2016), Methods.
    """
    advantages = np.zeros(rewards.shape, np.float64)
    after, following = np.zeros(len(rewards)), np.zeros(len(rewards))
    for step in range(rewards.shape[1] - 1, -1, -1):
        on = valid[:, step]
        delta = rewards[:, step] + following - values[:, step]
        after = np.where(on, delta + decay * after, 0)
        following = np.where(on, values[:, step], 0)
        advantages[:, step] = after
    returns = np.where(valid, advantages + values, 0)
    return Estimates(advantages.astype(np.float32), returns.astype(np.float32))


@keras.saving.register_keras_serializable(package="studies")
class PolicyLoss(keras.losses.Loss):
    """The clipped loss of an actor and a critic, with an entropy bonus.

        ρ = π(a) / π_old(a)
        w [−min(ρ A, clip(ρ, 1 − ε, 1 + ε) A) + c_V (R − V)² / 2 − c_H H(π)]

    At ρ = 1, its gradient is that of REINFORCE with the advantages A: −A ∇ log π(a).

    Args:
        clip: ε.
        value: c_V.
        entropy: c_H.

    Call arguments:
        y_true: (..., 5): the action, log π_old(a), A, R and the weight w of a step.
        y_pred: (..., 8): the logits of the seven actions, and V.

    Returns:
        The mean over all steps. Weights with a mean of 1 make it a mean over the
        steps with a weight above 0.

    Reference:
        Schulman et al., "Proximal policy optimization algorithms" (2017), equation 9.
    """

    def __init__(
        self,
        clip: float = 0.2,
        value: float = 0.5,
        entropy: float = 0.01,
        name: str = "policy_loss",
    ) -> None:
        super().__init__(name=name)
        self.clip, self.value, self.entropy = clip, value, entropy

    def call(self, y_true: Any, y_pred: Any) -> Any:
        action, old, advantage, returns, weight = (y_true[..., n] for n in range(5))
        logs = ops.log_softmax(y_pred[..., :ACTIONS], axis=-1)
        chosen = ops.one_hot(ops.cast(action, "int32"), ACTIONS, dtype=logs.dtype)
        ratio = ops.exp(ops.sum(chosen * logs, axis=-1) - old)
        clipped = ops.clip(ratio, 1 - self.clip, 1 + self.clip)
        loss = -ops.minimum(ratio * advantage, clipped * advantage)
        error = returns - y_pred[..., ACTIONS]
        loss += self.value * ops.square(error) / 2
        loss += self.entropy * ops.sum(ops.exp(logs) * logs, axis=-1)
        return weight * loss

    def get_config(self) -> dict[str, Any]:
        names = "clip", "value", "entropy", "name"
        return {name: getattr(self, name) for name in names}
