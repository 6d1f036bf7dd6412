"""One step of a DNC's memory on JAX, with an explicit gradient.

The gradient recomputes the step, which is cheaper than storing and reloading its
residuals, including the links. A training step of a DNC with masked keys and
deallocation is about 3 times as fast as with the gradient of JAX (B16 T64 M64 W32 R4,
CPU time).

Differentiating the recomputed step by JAX instead (`jax.checkpoint`) takes 1.9 times as
long without refinements (M64 T64), and sorting the slots instead of comparing them 1.3.

A whole loop with an explicit gradient was tried, too: segments that compute M and L
again, and the gradients of the controller's weights after the loop. It had 617 lines.
It made the training step 1.05 times as fast at the sizes of the graph tasks (M128 W80),
1.2 to 1.46 times with masked keys and deallocation, and 1.4 times without refinements.
With sharp links it could not be used.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import keras

from keras_attention.kernels.keras import is_exporting
from keras_attention.kernels.memory_step import reference
from keras_attention.kernels.memory_step.gradient import step_gradient
from keras_attention.kernels.memory_step.reference import MemoryOptions, MemoryState
from keras_attention.kernels.partitioning.jax import has_devices, partitioned

Tensor = Any
COMPARED = 256  # the maximum number of slots for which comparing is faster than sorting


def access_memory(
    interface: Tensor,
    old: MemoryState,
    mask: Tensor | None = None,
    options: MemoryOptions = reference.GRAVES,
) -> tuple[Tensor, MemoryState, Any]:
    """Returns the words read and the new memory, and residuals or None."""
    if isinstance(interface, keras.KerasTensor):
        return reference.access_memory(interface, old, mask, options)
    if not reference.has_written_gradient(options, old):
        return _by_parts(options, interface, old, mask)
    options = options._replace(compare_slots=old.usage.shape[-1] <= COMPARED)
    return *_access(options, jnp.asarray(interface), old, mask), None


def _by_parts(
    options: MemoryOptions, interface: Tensor, old: MemoryState, mask: Tensor | None
) -> tuple[Tensor, MemoryState, Any]:
    """Computes the step in Keras operations. Samples can be split over devices."""
    if not has_devices() or is_exporting():
        return reference.access_memory(interface, old, mask, options)
    leaves, tree = jax.tree.flatten((interface, old, mask))
    ranks = tuple(x.ndim for x in leaves)
    read, *new = _step_of_part(options, tree, ranks)(*leaves)
    return read, jax.tree.unflatten(tree.children()[1], new), None


@functools.lru_cache(maxsize=64)
def _step_of_part(options: MemoryOptions, tree: Any, ranks: tuple[int, ...]) -> Any:
    """Returns the partitioned step. All tensors have the samples in axis 0."""
    inputs = [("batch", *(None,) * (rank - 1)) for rank in ranks]
    state = inputs[1 : 1 + tree.children()[1].num_leaves]

    def step(*leaves: Tensor) -> tuple[Tensor, ...]:
        interface, old, mask = jax.tree.unflatten(tree, leaves)
        result = reference.access_memory(interface, old, mask, options)[:2]
        return tuple(jax.tree.leaves(result))

    return partitioned(step, inputs, [("batch", None, None), *state])


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _access(
    options: MemoryOptions, interface: Tensor, old: MemoryState, mask: Tensor | None
) -> tuple[Tensor, MemoryState]:
    return reference.step(interface, old, mask, options)[:2]


def _backward(options: MemoryOptions, inputs: Any, slopes: Any) -> tuple[Any, ...]:
    interface, old, mask = inputs
    d_read, d = slopes
    _, new, saved = reference.step(interface, old, mask, options)
    d_interface, d_old = step_gradient(old, new, saved, d_read, d, options)
    return d_interface, d_old, None if mask is None else jnp.zeros_like(mask)


_access.defvjp(lambda options, *inputs: (_access(options, *inputs), inputs), _backward)
