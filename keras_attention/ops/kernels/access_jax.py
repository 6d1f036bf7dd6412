"""One step of a DNC's memory on JAX; see `access.py`.

The gradient computes the step anew: that is short beside the links, which would have to
be written and read again with all else that is held.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import keras

from keras_attention.ops.kernels import access as plain

Tensor = Any
COMPARED = 256  # slots up to which comparing them takes less than sorting them


def access_memory(
    interface: Tensor, old: plain.Memory, there: Tensor | None = None
) -> tuple[Tensor, plain.Memory] | None:
    """The words that are read and the memory after; None for symbols."""
    if any(isinstance(x, keras.KerasTensor) for x in (interface, *old)):
        return None
    return _access(jnp.asarray(interface), old, there)


def _few(old: plain.Memory) -> bool:
    return old.usage.shape[-1] <= COMPARED


@jax.custom_vjp
def _access(
    interface: Tensor, old: plain.Memory, there: Tensor | None
) -> tuple[Tensor, plain.Memory]:
    return plain.forward(interface, old, there, _few(old))[:2]


def _forward(*given: Any) -> tuple[Any, Any]:
    return _access(*given), given


def _backward(given: Any, slopes: Any) -> tuple[Any, ...]:
    interface, old, there = given
    _, new, held = plain.forward(interface, old, there, _few(old))
    slope, earlier = plain.backward(old, new, held, *slopes)
    return slope, earlier, None if there is None else jnp.zeros_like(there)


_access.defvjp(_forward, _backward)
