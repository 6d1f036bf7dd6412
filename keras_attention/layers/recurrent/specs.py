"""The outputs of an `AttentionRNN` as symbolic tensors.

Shapes: B batch, T steps, S keys, V width of a value.
"""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.cells import state_widths, width_of

Tensor = Any


def output_spec(
    rnn: Any, inputs: Tensor, memory: Any, key: Any, return_attention_scores: bool
) -> Any:
    """Returns the shapes and dtypes of a call's outputs; see `AttentionRNN`.

    Raises:
        ValueError: if the inputs or a memory do not have rank 3.
    """
    if inputs.shape[-1] is None or len(inputs.shape) != 3:
        raise ValueError(
            "`inputs` must have shape (batch, steps, width). "
            f"Received: inputs.shape={tuple(inputs.shape)}"
        )
    values = [v for v, _, _ in rnn._split_memory(memory, key, None)]
    attentions = [as_attention(one) for one in rnn.attentions]
    query_width = state_widths(rnn.cell)[0]
    context_width = sum(
        one.output_width(query_width, value.shape[-1])
        for one, value in zip(attentions, values)
    )
    width = rnn.attention_units or width_of(rnn.cell) + context_width
    batch, steps = inputs.shape[:2]
    shape = (batch, steps, width) if rnn.return_sequences else (batch, width)
    returned: list[Any] = [keras.KerasTensor(shape, rnn.compute_dtype)]
    if rnn.return_state:
        feedback = None
        if rnn.input_feeding:
            feedback = rnn.attention_units or context_width
        returned += _state_specs(
            rnn.cell, feedback, attentions, values, batch, rnn.compute_dtype
        )
    if return_attention_scores:
        shapes = [
            one.weights_shape(batch, steps, value.shape[1])
            for one, value in zip(attentions, values)
        ]
        weights = [keras.KerasTensor(s, rnn.compute_dtype) for s in shapes]
        returned.append(weights if rnn.is_list else weights[0])
    return tuple(returned) if len(returned) > 1 else returned[0]


def _state_specs(
    cell: Any,
    feedback: int | None,
    attentions: list,
    values: list[Tensor],
    batch: Any,
    dtype: str,
) -> list[keras.KerasTensor]:
    """Returns the symbolic tensors of a `State` as a flat list.

    Args:
        cell: the cell.
        feedback: the width of the fed vector, or None.
        attentions: the attention layers.
        values: the memory of each attention layer, (B, S, V).
        batch: B.
        dtype: the dtype of all tensors except the states of the attention layers. These
            states are float32.
    """
    widths = state_widths(cell, True) + ([] if feedback is None else [feedback])
    found = [keras.KerasTensor((batch, width), dtype) for width in widths]
    for one, value in zip(attentions, values):
        shapes = one.state_shapes(tuple(value.shape[:2]))
        found += [keras.KerasTensor(shape, "float32") for shape in shapes]
    return found
