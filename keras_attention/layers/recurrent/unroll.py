"""The loop over the steps of an `AttentionRNN`.

Shapes: B batch, T steps, S keys, H heads, U units, V width of a value.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.layers.base.cells import output_of, step_cell
from keras_attention.layers.base.packing import time_swapped
from keras_attention.layers.recurrent.memories import attend_each
from keras_attention.layers.recurrent.state import State, StepOutput
from keras_attention.ops.sequence import loop

Tensor = Any


def unroll(
    rnn: Any,
    inputs: Tensor,
    mask: Tensor | None,
    state: State,
    prepared: tuple,
    return_weights: bool,
    training: bool | None,
) -> tuple[State, StepOutput]:
    """Runs all steps; attends after the loop if no cell step needs the context.

    Args:
        rnn: the `AttentionRNN`.
        inputs: (B, T, D).
        mask: booleans that broadcast to (B, T), or None.
        state: the initial state.
        prepared: the result of `prepare`.
        return_weights: whether to return the weights.
        training: the training mode of the cell.

    Returns:
        The last state, and a `StepOutput` of all steps, with tensors (B, T, ·) and
        weights (B, T, S) or (B, H, T, S).
    """
    shape = ops.shape(inputs)[:2]
    random = rnn.sample(prepared, shape, training)
    stateless = all(isinstance(s, tuple) and not s for s in state.attention)
    at_once = rnn.order == "after" and not rnn.input_feeding and stateless
    sequence: dict[str, Any] = {"inputs": ops.swapaxes(inputs, 0, 1)}  # (T, B, D)
    if mask is not None:
        sequence["mask"] = ops.swapaxes(ops.broadcast_to(mask, shape), 0, 1)
    if random is not None and not at_once:
        sequence["random"] = time_swapped(random)

    def step(state: State, now: dict[str, Any]) -> tuple[State, Any]:
        new: State
        found: Any
        if at_once:
            output, cell = step_cell(rnn.cell, [now["inputs"]], state.cell, training)
            new, found = state._replace(cell=cell), (output, output_of(cell))
        else:
            new, found = rnn.step(
                now["inputs"],
                state,
                prepared,
                now.get("random"),
                training,
                return_weights,
            )
        return new if mask is None else loop.choose(now["mask"], new, state), found

    state, found = loop.scan(step, state, sequence)
    output, context = (ops.swapaxes(x, 0, 1) for x in found[:2])  # (B, T, ·)
    if at_once:  # `context` still contains the queries
        attentions, states = rnn.protocol.attentions, state.attention
        context, weights, _ = attend_each(
            attentions,
            context,
            states,
            prepared,
            random,
            return_weights,
            rnn.compute_dtype,
        )
    else:  # (T, B, S) to (B, T, S), (T, B, H, S) to (B, H, T, S)
        weights = tuple([ops.moveaxis(alpha, 0, -2) for alpha in found.weights])
    return state, StepOutput(output, context, weights)


def hide_steps(mask: Tensor, output: Tensor, weights: tuple) -> tuple[Tensor, tuple]:
    """Sets outputs and weights to 0 at the steps where the mask (B, T) is False."""
    is_valid = ops.expand_dims(mask, -1)  # (B, T, 1)
    output = ops.where(is_valid, output, ops.zeros_like(output))
    found = []
    for alpha in weights:
        rows = is_valid if len(alpha.shape) == 3 else ops.expand_dims(is_valid, 1)
        found.append(ops.where(rows, alpha, ops.zeros_like(alpha)))
    return output, tuple(found)
