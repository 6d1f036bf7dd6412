"""A traced call: two functions of tensors, the call and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import torch

from keras_attention.kernels.replay.torch_structures import filled

Tensor = Any
Structure = Any


class Program(NamedTuple):
    """A traced call, which maps tensors to the output of the call."""

    # f(*inputs, *numbers): the tensors of the output, the new values of the variables,
    # and the tensors that `backward` needs
    forward: Callable[..., list[Tensor]]
    backward: Callable[..., list[Tensor | None]]  # f(*saved, *slopes): the gradients
    functions: list[Callable[[], Structure]]  # that return the random numbers
    output: Structure  # with slots for the first results
    outputs: int  # number of tensors in the output, masks included
    assigned: list[Any]  # the variables whose new values are the other results
    weights: list[Tensor]  # that need gradients
    needing: list[int]  # the inputs that need gradients
    read: list[Tensor]  # the weights that the gradient reads
    slopes: list[tuple[int, tuple]]  # index, with shape, strides, dtype and device
    reached: list[set[int]]  # for each gradient, the outputs that it depends on
    may_end: bool  # whether a replay may end after it has drawn random numbers

    def __call__(self, leaves: list[Tensor]) -> Structure:
        """Returns the output for the tensors of a call."""
        numbers: list[Tensor] = []
        if self.functions:
            numbers = tensors_of([function() for function in self.functions])
        if self.slopes:
            sources = (*self.weights, *(leaves[i] for i in self.needing))
            count = len(leaves) + len(numbers)
            results = _Replay.apply(self, count, *leaves, *numbers, *sources)
        else:
            with torch.no_grad():
                results = self.forward(*leaves, *numbers)
        for variable, value in zip(self.assigned, results[self.outputs :]):
            variable.assign(value)
        return filled(self.output, results)


class _Replay(torch.autograd.Function):
    """A traced call with its traced gradient."""

    @staticmethod
    def forward(ctx: Any, program: Program, inputs: int, *tensors: Tensor) -> Any:
        results = program.forward(*tensors[:inputs])
        count = program.outputs + len(program.assigned)
        ctx.save_for_backward(*results[count:])
        ctx.program, ctx.inputs = program, inputs
        ctx.versions = [weight._version for weight in program.read]
        ctx.set_materialize_grads(False)
        with_slopes = {i for i, _ in program.slopes}
        constant = (results[i] for i in range(count) if i not in with_slopes)
        ctx.mark_non_differentiable(*constant)
        return tuple(results[:count])

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple:
        program = ctx.program
        if torch.is_grad_enabled():
            raise RuntimeError(
                "A replayed call has no second derivatives. Call the model itself, or "
                "compile it with run_eagerly=True. Received: a gradient with "
                "create_graph=True"
            )
        if ctx.versions != [weight._version for weight in program.read]:
            raise RuntimeError(
                "The weights of a replayed call must not change before its gradient is "
                "computed. Received: weights that were changed in place"
            )
        all_slopes, unused = [], set()
        for i, (shape, strides, dtype, device) in program.slopes:
            slope = slopes[i]
            if slope is None:
                unused.add(i)
                slope = torch.zeros(shape, dtype=dtype, device=device)
            if slope.stride() != strides:
                copy = torch.empty_strided(shape, strides, dtype=dtype, device=device)
                slope = copy.copy_(slope)
            all_slopes.append(slope)
        grads = program.backward(*ctx.saved_tensors, *all_slopes)
        if unused:  # a weight that only unused outputs depend on has no gradient
            pairs = zip(grads, program.reached)
            grads = [None if reached <= unused else grad for grad, reached in pairs]
        return (None, None, *[None] * ctx.inputs, *grads)


def tensors_of(structures: Sequence[Structure]) -> list[Tensor]:
    """Returns the tensors in a list of structures as a flat list."""
    return [x for x in keras.tree.flatten(structures) if isinstance(x, torch.Tensor)]
