"""Gradients on whatever backend runs, as NumPy arrays."""

import keras
import ml_dtypes
import numpy as np
import pytest
from keras import ops


def tensor(x, dtype="float32"):
    """Numbers as a tensor; rounded by NumPy, for which JAX need compile nothing."""
    if isinstance(x, np.ndarray | list | tuple):
        x = np.asarray(x).astype(getattr(ml_dtypes, dtype, dtype))
    return ops.convert_to_tensor(x, dtype)


def to_numpy(x, dtype="float64"):
    return np.asarray(ops.convert_to_numpy(x)).astype(dtype)


def gradient(f, *arrays, dtype="float32"):
    """The gradients of a scalar f at arrays, one for each of them.

    Skips the test on a backend that has no gradients.
    """
    name = keras.config.backend()
    if name not in _GRADIENTS:
        pytest.skip(f"the {name} backend has no gradients")
    found = _GRADIENTS[name](f, [tensor(x, dtype) for x in arrays])
    return [to_numpy(g) for g in found]


def second(f, arrays, along, wrap=lambda function: function):
    """The gradients of Σ along · (gradients of f), in the same terms as `gradient`.

    `wrap` is what a backend may do to the function that computes them.
    """
    name = keras.config.backend()
    if name not in _GRADIENTS:
        pytest.skip(f"the {name} backend has no gradients")
    along = [tensor(a) for a in along]

    def slope(*x):
        return sum(ops.sum(a * g) for a, g in zip(along, _ONCE[name](f, x)))

    step = wrap(lambda *x: _GRADIENTS[name](slope, list(x)))
    return [to_numpy(g) for g in step(*map(tensor, arrays))]


def _jax(f, tensors):
    import jax

    def stateless(*x):
        with keras.StatelessScope():  # or a seed would keep a tracer
            return f(*x)

    slope = jax.grad(stateless, argnums=tuple(range(len(tensors))))
    return jax.jit(slope)(*tensors)  # compiled once, not operation by operation


def _torch(f, tensors):
    import torch

    leaves = [x.detach().clone().requires_grad_(True) for x in tensors]
    found = torch.autograd.grad(f(*leaves), leaves, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found)]


def _tensorflow(f, tensors):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(tensors)
        y = f(*tensors)
    return tape.gradient(y, tensors, unconnected_gradients="zero")


def _once_jax(f, tensors):
    import jax

    return jax.grad(f, argnums=tuple(range(len(tensors))))(*tensors)


def _once_torch(f, tensors):
    import torch

    options = {"create_graph": True, "materialize_grads": True}
    return torch.autograd.grad(f(*tensors), tensors, **options)


_ONCE = {"jax": _once_jax, "torch": _once_torch, "tensorflow": _tensorflow}
_GRADIENTS = {"jax": _jax, "torch": _torch, "tensorflow": _tensorflow}
