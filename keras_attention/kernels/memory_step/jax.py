"""One step of a DNC's memory on JAX, with its gradient written out.

The gradient computes the step anew: that is short beside the links, which would have to
be written and read again with all else that is kept.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import keras

from keras_attention.kernels.memory_step import reference
from keras_attention.kernels.memory_step.gradient import step_gradient
from keras_attention.kernels.memory_step.interface import MemoryOptions
from keras_attention.kernels.memory_step.reference import MemoryState

Tensor = Any
COMPARED = 256  # slots up to which comparing them takes less than sorting them


def access_memory(
    interface: Tensor,
    old: MemoryState,
    mask: Tensor | None = None,
    options: MemoryOptions = reference.GRAVES,
) -> tuple[Tensor, MemoryState]:
    """The words that are read and the memory after."""
    options = options._replace(compare_slots=old.usage.shape[-1] <= COMPARED)
    symbolic = isinstance(interface, keras.KerasTensor)
    if symbolic or not reference.has_written_gradient(options, old):
        return reference.access_memory(interface, old, mask, options)
    return _access(options, jnp.asarray(interface), old, mask)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _access(
    options: MemoryOptions, interface: Tensor, old: MemoryState, mask: Tensor | None
) -> tuple[Tensor, MemoryState]:
    return reference.step(interface, old, mask, options)[:2]


def _forward(options: MemoryOptions, *given: Any) -> tuple[Any, Any]:
    return _access(options, *given), given


def _backward(options: MemoryOptions, given: Any, slopes: Any) -> tuple[Any, ...]:
    interface, old, mask = given
    d_read, d = slopes
    _, new, saved = reference.step(interface, old, mask, options)
    d_interface, d_old = step_gradient(old, new, saved, d_read, d, options)
    return d_interface, d_old, None if mask is None else jnp.zeros_like(mask)


_access.defvjp(_forward, _backward)
