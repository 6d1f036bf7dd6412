"""Decoding on JAX: one compiled loop with the weights as explicit arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras

from keras_attention.kernels.decoding.reference import Done, Step, read, write

Tensor = Any

__all__ = ["compiled", "generate", "read", "write"]


def generate(step: Step, state: Any, start: Any, stop: Any, done: Done) -> Any:
    """Runs `jax.lax.while_loop`, which compiles the step once for all positions."""

    def goes_on(carry: tuple) -> Any:
        return (carry[0] < stop) & (True if done is None else ~done(carry[1]))

    def body(carry: tuple) -> tuple:
        return carry[0] + 1, step(*carry)

    carry = (jnp.asarray(start, "int32"), jax.tree.map(jnp.asarray, state))
    return jax.lax.while_loop(goes_on, body, carry)[1]


def compiled(function: Callable, variables: Sequence, jit_compile: bool) -> Callable:
    """Compiles a function with `jax.jit`; the weights become arguments.

    A weight that the function closes over would become a constant. Assignments to
    variables, such as the state of a seed generator, are applied after the call.
    """

    @jax.jit
    def call(values: list, args: tuple) -> tuple[Any, dict[int, Tensor]]:
        scope = keras.StatelessScope(state_mapping=list(zip(variables, values)))
        before = [scope.get_current_value(v) for v in variables]
        with scope:
            output = function(*args)
        after = [scope.get_current_value(v) for v in variables]
        changed = {i: a for i, (a, b) in enumerate(zip(after, before)) if a is not b}
        return output, changed

    def run(*args: Any) -> Any:
        output, changed = call([v.value for v in variables], args)
        for i, value in changed.items():
            variables[i].assign(value)
        return output

    return run
