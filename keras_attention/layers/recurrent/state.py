"""The state and the output of one step of an `AttentionRNN`.

Shapes: B batch, S keys, H heads, U units, V width of a value, A width of the
attentional vector.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras

from keras_attention.layers.base.cells import state_widths
from keras_attention.layers.base.packing import packed

Tensor = Any


class State(NamedTuple):
    """The state between two steps of an `AttentionRNN`."""

    cell: Any  # s, the state of the cell: a structure of (B, U)
    feedback: Any  # with input feeding h̃ (B, A) or c (B, V), else `()`
    attention: Any  # the state of each layer, `()` if it has none


class StepOutput(NamedTuple):
    """The output of one step of an `AttentionRNN`."""

    output: Tensor  # the cell's output (B, U), or with input feeding h̃ (B, A)
    context: Tensor  # c (B, V)
    weights: Any  # α of each layer, (B, S) or (B, H, S); `()` if not requested


def replace_state(cell: Any, state: State, given: Any) -> State:
    """Replaces the initial state by a given state.

    Args:
        cell: the cell.
        state: the initial state.
        given: the states of the cell, or the whole state, as a structure of tensors.

    Raises:
        ValueError: if the number or the shapes of the tensors are wrong.
    """
    flat = keras.tree.flatten(given)
    expected = keras.tree.flatten(state.cell)
    whole = keras.tree.flatten(tuple(state))
    if len(flat) == len(expected):
        _check_shapes(flat, expected)
        return state._replace(cell=packed(state.cell, flat))
    if len(flat) == len(whole):
        _check_shapes(flat, whole)
        return State(*packed(tuple(state), flat))
    raise ValueError(
        f"`initial_state` must hold the {len(expected)} state(s) of the cell, of "
        f"widths {state_widths(cell, True)}, or the {len(whole)} tensors that "
        f"`return_state` returns. Received: {len(flat)} tensor(s) of shapes "
        f"{[tuple(x.shape) for x in flat]}"
    )


def _check_shapes(given: list[Tensor], expected: list[Tensor]) -> None:
    for one, wanted in zip(given, expected):
        fits = len(one.shape) == len(wanted.shape) and all(
            None in (n, m) or n == m for n, m in zip(one.shape, wanted.shape)
        )
        if not fits:
            raise ValueError(
                "`initial_state` must hold tensors of shapes "
                f"{[tuple(x.shape) for x in expected]}. Received: shapes "
                f"{[tuple(x.shape) for x in given]}"
            )
