"""Decoding on torch: a Python loop with in-place updates and few device syncs.

Inside a compiled function, the steps of the loop are recorded; see `torch_steps.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import torch

from keras_attention.kernels.decoding import torch_steps
from keras_attention.kernels.decoding.reference import tensors

Tensor = Any
Structure = Any

# An accelerator runs asynchronously, and each check for the end makes Python wait.
# Extra steps after the end change nothing and cost less than a check after each step.
PATIENCE = 8


def generate(
    step: Callable[[Any, Structure], Structure],
    state: Structure,
    start: Any,
    stop: Any,
    done: Callable[[Structure], Tensor] | None,
) -> Structure:
    """Runs a Python loop, which replays the recorded step if there is one.

    `step` receives the index as a number. A recorded step receives it as a tensor.
    """
    start, stop = int(start), int(stop)
    if start >= stop or (done is not None and done(state)):
        return state
    patience = _patience(state)
    program = torch_steps.program(step, done, state, stop - start)
    if program is None:
        for index in range(start, stop):
            asks = index > start and (index - start) % patience == 0
            if asks and done is not None and done(state):
                break
            state = step(index, state)
        return state
    flat, ended = program.tensors, None
    places = torch.arange(stop, device=flat[0].device).unbind()
    for index in range(start, stop):
        if ended is not None and (index - start) % patience == 0 and ended:
            break
        flat = program.run(places[index], *flat)
        if done is not None:
            ended, *flat = flat
    return program.pack(flat)


def read(tensor: Tensor, index: Any) -> Tensor:
    """Returns a view; if the index is a tensor, a copy without a device sync."""
    if not isinstance(index, torch.Tensor):
        return tensor[:, index]
    return tensor.index_select(1, index.reshape(1)).squeeze(1)


def write(tensor: Tensor, index: Any, values: Tensor) -> Tensor:
    """Updates the tensor in place, except in traces or when a gradient must flow."""
    if tensor.requires_grad or torch.compiler.is_compiling() or torch.jit.is_tracing():
        tensor = tensor.clone()
    if not isinstance(index, torch.Tensor):
        tensor[:, index] = values
        return tensor
    values = values.to(tensor.dtype).unsqueeze(1)
    return tensor.index_copy_(1, index.reshape(1).long(), values)


def compiled(
    function: Callable[..., Structure], variables: Sequence[Any], jit_compile: bool
) -> Callable[..., Structure]:
    """Wraps a function to run without autograd and with recorded loop steps."""
    recorder = torch_steps.Recorder(variables)

    def run(*args: Structure) -> Structure:
        with torch.inference_mode(), recorder.recording(args):
            output = function(*tensors(args))
        # Copies that are made outside inference mode are regular tensors.
        return keras.tree.map_structure(
            lambda x: x.clone() if isinstance(x, torch.Tensor) else x, output
        )

    return run


def _patience(state: Structure) -> int:
    for leaf in keras.tree.flatten(state):
        if isinstance(leaf, torch.Tensor):
            return 1 if leaf.device.type == "cpu" else PATIENCE
    return 1
