"""Decoding on JAX: one compiled loop with the weights as explicit arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras

from keras_attention.kernels.decoding.reference import read, write

Tensor = Any
Structure = Any

__all__ = ["compiled", "generate", "read", "write"]


def generate(
    step: Callable[[Any, Structure], Structure],
    state: Structure,
    start: Any,
    stop: Any,
    done: Callable[[Structure], Tensor] | None,
) -> Structure:
    """Runs `jax.lax.while_loop`, which compiles the step once for all positions."""
    stop = jnp.asarray(stop, "int32")

    def goes_on(carry: tuple[Any, Structure]) -> Any:
        index, state = carry
        before_stop = index < stop
        return before_stop if done is None else before_stop & ~done(state)

    def body(carry: tuple[Any, Structure]) -> tuple[Any, Structure]:
        index, state = carry
        return index + 1, step(index, state)

    state = jax.tree.map(jnp.asarray, state)
    return jax.lax.while_loop(goes_on, body, (jnp.asarray(start, "int32"), state))[1]


def compiled(
    function: Callable[..., Structure], variables: Sequence[Any], jit_compile: bool
) -> Callable[..., Structure]:
    """Compiles a function with `jax.jit`; the weights become arguments.

    A weight that the function closes over would become a constant. Assignments to
    variables, such as the state of a seed generator, are applied after the call.
    """

    @jax.jit
    def call(values: list, args: tuple) -> tuple[Structure, dict[int, Tensor]]:
        scope = keras.StatelessScope(state_mapping=list(zip(variables, values)))
        before = [scope.get_current_value(v) for v in variables]
        with scope:
            output = function(*args)
        after = [scope.get_current_value(v) for v in variables]
        changed = {i: a for i, (a, b) in enumerate(zip(after, before)) if a is not b}
        return output, changed

    def run(*args: Structure) -> Structure:
        output, changed = call([v.value for v in variables], args)
        for i, value in changed.items():
            variables[i].assign(value)
        return output

    return run
