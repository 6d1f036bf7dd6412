"""Decoding in torch: a loop in Python that writes in place and seldom waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import torch

from keras_attention.ops.kernels.decoding.generic import tensors

Tensor = Any
Structure = Any

# An accelerator runs ahead of Python, which has to wait for it to see whether it is
# done. A step too many changes nothing, and costs less than waiting after each.
PATIENCE = 8


def generate(
    step: Callable[[Any, Structure], Structure],
    state: Structure,
    start: Any,
    stop: Any,
    done: Callable[[Structure], Tensor] | None,
) -> Structure:
    """A loop in Python whose index is a number, not a tensor."""
    start, stop = int(start), int(stop)
    for index in range(start, stop):
        if done is not None and (index - start) % _patience(state) == 0 and done(state):
            break
        state = step(index, state)
    return state


def write(tensor: Tensor, index: Any, values: Tensor) -> Tensor:
    """Writes into the tensor itself, save where a gradient must flow or in a trace."""
    if tensor.requires_grad or torch.compiler.is_compiling() or torch.jit.is_tracing():
        tensor = tensor.clone()
    tensor[:, index] = values
    return tensor


def compiled(
    function: Callable[..., Structure], variables: Sequence[Any], jit_compile: bool
) -> Callable[..., Structure]:
    """The function without autograd's book-keeping."""

    def run(*args: Structure) -> Structure:
        with torch.inference_mode():
            output = function(*tensors(args))
        # Outside of the mode, copies are tensors as any other.
        return keras.tree.map_structure(
            lambda x: x.clone() if isinstance(x, torch.Tensor) else x, output
        )

    return run


def _patience(state: Structure) -> int:
    for leaf in keras.tree.flatten(state):
        if isinstance(leaf, torch.Tensor):
            return 1 if leaf.device.type == "cpu" else PATIENCE
    return 1
