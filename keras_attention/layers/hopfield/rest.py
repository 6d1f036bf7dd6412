"""States that are updated until each one rests.

Shapes: B batch, T states, H heads, E width of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_attention import kernels

Tensor = Any

MAX_STEPS = 100  # of a state that does not come to rest


def iterate_until_rest(
    update: Callable[[Tensor], Tensor], state: Tensor, tolerance: float
) -> Tensor:
    """States (B, T, H, E) where each has come to rest; no gradient passes.

    Args:
        update: one step of all states.
        state: the first ones.
        tolerance: how far a state moves at most in one step once it rests.
    """

    def goes_on(state: Tensor, moving: Tensor) -> Tensor:
        return kernels.any_left(moving)

    def step(state: Tensor, moving: Tensor) -> tuple[Tensor, Tensor]:
        new = ops.stop_gradient(update(state))
        change = ops.cast(new, "float32") - ops.cast(state, "float32")
        far = ops.sum(change * change, -1, keepdims=True) > tolerance**2
        # A state that rests stays as it is, however long others of its batch move.
        return ops.where(moving, new, state), ops.logical_and(moving, far)

    state = ops.stop_gradient(state)
    moving = ops.ones_like(ops.sum(state, -1, keepdims=True), dtype="bool")
    return ops.while_loop(goes_on, step, (state, moving), maximum_iterations=MAX_STEPS)[
        0
    ]
