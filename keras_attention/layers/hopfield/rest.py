"""Updates states until each state converges.

Shapes: B batch, T states, H heads, E width of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_attention import kernels

Tensor = Any

MAX_STEPS = 100  # the limit for states that do not converge


def iterate_until_rest(
    update: Callable[[Tensor], Tensor], state: Tensor, tolerance: float
) -> Tensor:
    """Updates the states until convergence, and returns them without a gradient.

    Args:
        update: a function that computes one step of all states.
        state: the initial states, (B, T, H, E).
        tolerance: the largest distance that a converged state moves in one step.
    """

    def goes_on(state: Tensor, moving: Tensor) -> Tensor:
        return kernels.any_left(moving)

    def step(state: Tensor, moving: Tensor) -> tuple[Tensor, Tensor]:
        new = ops.stop_gradient(update(state))
        change = ops.cast(new, "float32") - ops.cast(state, "float32")
        far = ops.sum(change * change, -1, keepdims=True) > tolerance**2
        # Converged states stay fixed while the rest of the batch still moves.
        return ops.where(moving, new, state), ops.logical_and(moving, far)

    state = ops.stop_gradient(state)
    moving = ops.ones_like(ops.sum(state, -1, keepdims=True), dtype="bool")
    return ops.while_loop(goes_on, step, (state, moving), maximum_iterations=MAX_STEPS)[
        0
    ]


def check_training(update_steps: int | None, training: bool | None) -> None:
    """Raises a ValueError for training with `update_steps=None`."""
    if training and update_steps is None:
        raise ValueError(
            "`update_steps` must be a number while training, since iteration until "
            "convergence has no gradient. Received: update_steps=None, "
            f"training={training}"
        )
