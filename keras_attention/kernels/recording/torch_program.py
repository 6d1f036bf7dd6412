"""A recorded call: two functions of tensors, the call and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import torch

from keras_attention.kernels.recording.torch_structures import filled

Tensor = Any
Structure = Any


class Layout(NamedTuple):
    """The order and the meaning of the tensors of a recorded call."""

    functions: list[Callable[[], Structure]]  # that return the random numbers
    output: Structure  # with slots for the first results
    outputs: int  # number of tensors in the output, masks included
    assigned: list[Any]  # the variables whose new values are the other results
    weights: list[Tensor]  # that need gradients
    needing: list[int]  # the inputs that need gradients
    read: list[Tensor]  # the weights that the gradient reads
    slopes: list[tuple[int, tuple]]  # index, with shape, strides, dtype and device
    reached: list[set[int]]  # for each gradient, the outputs that it depends on
    decides: bool  # whether a decision with another result ends a replay


class Program:
    """A recorded call, which maps tensors to the output of the call.

    Args:
        forward: f(*inputs, *numbers) returns the tensors of the output, then the new
            values of the variables, then the tensors that `backward` needs.
        backward: f(*saved, *slopes) returns the gradients. It is not used if no output
            has a gradient.
        layout: the `Layout` of these lists.
    """

    def __init__(self, forward: Callable, backward: Callable, layout: Layout) -> None:
        self.forward, self.backward, self.layout = forward, backward, layout
        # Whether a replay may end after it has drawn random numbers
        self.may_end = layout.decides and bool(layout.functions)
        self.results = layout.outputs + len(layout.assigned)
        with_slopes = {i for i, _ in layout.slopes}
        self.constant = [i for i in range(self.results) if i not in with_slopes]

    def __call__(self, leaves: list[Tensor]) -> Structure:
        """Returns the output for the tensors of a call."""
        layout = self.layout
        numbers: list[Tensor] = []
        if layout.functions:
            numbers = tensors_of([function() for function in layout.functions])
        if layout.slopes:
            given = [leaves[i] for i in layout.needing]
            arguments = (*leaves, *numbers, *layout.weights, *given)
            found = _Replay.apply(self, len(leaves) + len(numbers), *arguments)
        else:
            with torch.no_grad():
                found = self.forward(*leaves, *numbers)
        for variable, value in zip(layout.assigned, found[layout.outputs :]):
            variable.assign(value)
        return filled(layout.output, found)


class _Replay(torch.autograd.Function):
    """A recorded call with its recorded gradient."""

    @staticmethod
    def forward(ctx: Any, program: Program, given: int, *tensors: Tensor) -> Any:
        found = program.forward(*tensors[:given])
        ctx.save_for_backward(*found[program.results :])
        ctx.program, ctx.given = program, given
        ctx.versions = [weight._version for weight in program.layout.read]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(found[i] for i in program.constant))
        return tuple(found[: program.results])

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple:
        layout = ctx.program.layout
        if torch.is_grad_enabled():
            raise RuntimeError(
                "A recorded call has no second derivatives. Call the model itself, or "
                "compile it with run_eagerly=True. Received: a gradient with "
                "create_graph=True"
            )
        if ctx.versions != [weight._version for weight in layout.read]:
            raise RuntimeError(
                "The weights of a recorded call must not change before its gradient is "
                "computed. Received: weights that were changed in place"
            )
        found, unused = [], set()
        for i, (shape, strides, dtype, device) in layout.slopes:
            slope = slopes[i]
            if slope is None:
                unused.add(i)
                slope = torch.zeros(shape, dtype=dtype, device=device)
            if slope.stride() != strides:
                copy = torch.empty_strided(shape, strides, dtype=dtype, device=device)
                slope = copy.copy_(slope)
            found.append(slope)
        grads = ctx.program.backward(*ctx.saved_tensors, *found)
        if unused:  # a weight that only unused outputs depend on has no gradient
            pairs = zip(grads, layout.reached)
            grads = [None if reached <= unused else grad for grad, reached in pairs]
        return (None, None, *[None] * ctx.given, *grads)


def tensors_of(structures: Sequence[Structure]) -> list[Tensor]:
    """Returns the tensors in a list of structures as a flat list."""
    return [x for x in keras.tree.flatten(structures) if isinstance(x, torch.Tensor)]
