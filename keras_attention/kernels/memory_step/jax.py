"""One step of a DNC's memory on JAX; see `access.py`.

The gradient computes the step anew: that is short beside the links, which would have to
be written and read again with all else that is held.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import keras

from keras_attention.kernels.memory_step import reference as plain

Tensor = Any
COMPARED = 256  # slots up to which comparing them takes less than sorting them


def access_memory(
    interface: Tensor,
    old: plain.Memory,
    there: Tensor | None = None,
    form: plain.Form = plain.PLAIN,
) -> tuple[Tensor, plain.Memory] | None:
    """The words that are read and the memory after; None for symbols."""
    if any(isinstance(x, keras.KerasTensor) for x in (interface, *old)):
        return None
    form = form._replace(compared=old.usage.shape[-1] <= COMPARED)
    return _access(form, jnp.asarray(interface), old, there)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _access(
    form: plain.Form, interface: Tensor, old: plain.Memory, there: Tensor | None
) -> tuple[Tensor, plain.Memory]:
    return plain.forward(interface, old, there, form)[:2]


def _forward(form: plain.Form, *given: Any) -> tuple[Any, Any]:
    return _access(form, *given), given


def _backward(form: plain.Form, given: Any, slopes: Any) -> tuple[Any, ...]:
    interface, old, there = given
    d_read, d = slopes
    _, new, held = plain.forward(interface, old, there, form)
    slope, earlier = plain.backward(old, new, held, d_read, d, form)
    return slope, earlier, None if there is None else jnp.zeros_like(there)


_access.defvjp(_forward, _backward)
