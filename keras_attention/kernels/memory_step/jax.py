"""One step of a DNC's memory on JAX, with an explicit gradient.

The gradient recomputes the step, which is cheaper than storing and reloading its
residuals, including the links.
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
COMPARED = 256  # the maximum number of slots for which comparing is faster than sorting


def access_memory(
    interface: Tensor,
    old: MemoryState,
    mask: Tensor | None = None,
    options: MemoryOptions = reference.GRAVES,
) -> tuple[Tensor, MemoryState]:
    """Returns the words read and the new memory."""
    symbolic = isinstance(interface, keras.KerasTensor)
    if symbolic or not reference.has_written_gradient(options, old):
        return reference.access_memory(interface, old, mask, options)
    options = options._replace(compare_slots=old.usage.shape[-1] <= COMPARED)
    return _access(options, jnp.asarray(interface), old, mask)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _access(
    options: MemoryOptions, interface: Tensor, old: MemoryState, mask: Tensor | None
) -> tuple[Tensor, MemoryState]:
    return reference.step(interface, old, mask, options)[:2]


def _forward(options: MemoryOptions, *inputs: Any) -> tuple[Any, Any]:
    return _access(options, *inputs), inputs


def _backward(options: MemoryOptions, inputs: Any, slopes: Any) -> tuple[Any, ...]:
    interface, old, mask = inputs
    d_read, d = slopes
    _, new, saved = reference.step(interface, old, mask, options)
    d_interface, d_old = step_gradient(old, new, saved, d_read, d, options)
    return d_interface, d_old, None if mask is None else jnp.zeros_like(mask)


_access.defvjp(_forward, _backward)
