"""Functions for layers that loop over a Keras cell.

A cell is any layer with a `state_size` and a `call(inputs, states)` that returns the
output and the new states. Keras' cells, stacks of cells and user-defined cells qualify.

Shapes: B batch, D width of an input, U units.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.packing import packed

Tensor = Any
_NESTED = (list, tuple, dict)


def as_cell(cell: Any) -> Any:
    """Returns a cell unchanged, and a list of cells as a stack.

    Raises:
        ValueError: for an object that is not a cell.
    """
    if isinstance(cell, (list, tuple)):
        cells = [as_cell(one) for one in cell]
        if len(cells) == 1:
            return cells[0]
        if cells:
            return keras.layers.StackedRNNCells(cells, dtype=cells[0].dtype_policy)
    if isinstance(cell, keras.layers.RNN):
        raise ValueError(
            "`cell` must be a cell, which takes one step, such as "
            "keras.layers.LSTMCell(units); a layer that loops over time has one as its "
            f"`cell`. Received: cell={cell!r}"
        )
    if not (isinstance(cell, keras.layers.Layer) and hasattr(cell, "state_size")):
        raise ValueError(
            "`cell` must be a Keras layer with `call(inputs, states)` and a "
            "`state_size`, such as keras.layers.LSTMCell(units), or a list of such. "
            f"Received: cell={cell!r}"
        )
    return cell


def state_widths(cell: Any, whole: bool = False) -> list[int]:
    """Returns the flat list of the widths of a cell's states.

    Args:
        cell: a cell or a stack.
        whole: whether to return the widths of all states of a stack, in order, instead
            of only those of its last cell.
    """
    size = cell.state_size
    if isinstance(cell, keras.layers.StackedRNNCells) and not whole:
        size = cell.cells[-1].state_size
    return [int(n) for n in keras.tree.flatten(size)]


def width_of(cell: Any) -> int:
    """Returns the width of a cell's output."""
    width = getattr(cell, "output_size", None)
    return state_widths(cell)[0] if width is None else int(width)


def output_of(state: Any) -> Tensor:
    """Returns the first state (B, U) of a cell, or of the last cell of a stack."""
    while isinstance(state, (list, tuple)):
        stacked = isinstance(state[0], (list, tuple)) or len(state) == 1
        state = state[-1] if stacked else state[0]
    return state


def initial_state(cell: Any, batch: Any, dtype: str) -> Any:
    """Returns the cell's own initial state, or zeros if it has none, as a list."""
    if hasattr(cell, "get_initial_state"):
        state = cell.get_initial_state(batch_size=batch)
    else:
        state = keras.tree.map_structure(
            lambda n: ops.zeros((batch, n), dtype), cell.state_size
        )
    state = list(state) if isinstance(state, (list, tuple)) else [state]
    return keras.tree.map_structure(lambda x: ops.cast(x, dtype), state)


def call_cell(
    cell: Any, inputs: Tensor, state: Any, training: bool | None
) -> tuple[Tensor, Any]:
    """Runs one step of a cell, as `keras.layers.RNN` does."""
    options = {"training": training} if kernels.takes_training(cell) else {}
    return cell(inputs, state, **options)


def step_cell(
    cell: Any, read: list[Tensor], state: Any, training: bool | None
) -> tuple[Tensor, Any]:
    """Runs one step of a cell on several concatenated tensors (B, ·).

    Returns:
        The output (B, U), and the new state in the structure and dtypes of `state`.
    """
    inputs = read[0] if len(read) == 1 else ops.concatenate(read, axis=-1)
    options = {"training": training} if kernels.takes_training(cell) else {}
    output, new = cell(inputs, state, **options)
    return output, as_before(new, state)


def as_before(new: Any, old: Any) -> Any:
    """Returns a cell's new state in the structure and dtypes of the old state.

    This function runs at every step. It is plain Python, because `keras.tree` would
    take as long as the arithmetic.
    """
    if type(old) not in (list, tuple):
        return packed(old, keras.tree.flatten(new))
    new = new if isinstance(new, (list, tuple)) else [new]
    state = []
    for a, b in zip(new, old, strict=True):
        if isinstance(b, _NESTED):
            a = as_before(a, b)
        elif a.dtype != b.dtype:
            a = ops.cast(a, b.dtype)
        state.append(a)
    return type(old)(state)


def has_dropout(cell: Any) -> bool:
    """Returns whether a cell, or any cell of a stack, has dropout."""
    if isinstance(cell, keras.layers.StackedRNNCells):
        return any(map(has_dropout, cell.cells))
    rates = "dropout", "recurrent_dropout"
    return any(getattr(cell, rate, 0) for rate in rates)


def prepare_dropout(cell: Any, width: int, state: Any) -> None:
    """Samples the dropout masks of a cell before the loop that uses them.

    Args:
        cell: a cell or a stack.
        width: D, the width of the cell's inputs.
        state: the state of the cell, a structure of tensors (B, U).
    """
    first = keras.tree.flatten(state)[0]
    if isinstance(cell, keras.layers.StackedRNNCells):
        for one, own in zip(cell.cells, state):
            prepare_dropout(one, width, own)
            width = width_of(one)
    elif hasattr(cell, "get_dropout_mask"):
        cell.get_dropout_mask(ops.zeros((ops.shape(first)[0], width), first.dtype))
        cell.get_recurrent_dropout_mask(first)


def forget_dropout(cell: Any) -> None:
    """Resets the dropout masks of `prepare_dropout` after a sequence."""
    if isinstance(cell, keras.layers.StackedRNNCells):
        for one in cell.cells:
            forget_dropout(one)
    elif hasattr(cell, "reset_dropout_mask"):
        cell.reset_dropout_mask()
        cell.reset_recurrent_dropout_mask()


@contextmanager
def sequence_dropout(cell: Any, width: int, state: Any) -> Iterator[None]:
    """Inside this context, a cell uses one dropout mask per sequence.

    Args:
        cell: a cell or a stack.
        width: D, the width of the cell's inputs.
        state: the state of the cell, a structure of tensors (B, U).
    """
    if not has_dropout(cell):
        yield
        return
    prepare_dropout(cell, width, state)
    try:
        yield
    finally:
        forget_dropout(cell)
