"""Functions for layers that loop over a Keras cell.

A cell is any layer with a `state_size` and a `call(inputs, states)` that returns the
output and the new states. Keras' cells, stacks of cells and user-defined cells qualify.

Shapes: B batch, T steps, D width of an input, U units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.numerics import masks

Tensor = Any
_NESTED = (list, tuple, dict)


def packed(structure: Any, flat: list[Tensor]) -> Any:
    """Packs the tensors `flat` into the structure and dtypes of `structure`."""
    like = keras.tree.flatten(structure)
    flat = [ops.cast(x, y.dtype) for x, y in zip(flat, like)]
    return keras.tree.pack_sequence_as(structure, flat)


def time_swapped(structure: Any) -> Any:
    """Swaps the first two axes, batch and time, of each tensor."""
    return keras.tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), structure)


def last(outputs: Tensor, mask: Tensor | None) -> Tensor:
    """Returns the output (B, ·) of the last unmasked step."""
    if mask is None:
        return outputs[:, -1]
    steps = masks.positions(ops.shape(outputs)[1])
    place = ops.max(ops.where(mask, steps, 0), axis=1)  # (B,)
    return ops.take_along_axis(outputs, place[:, None, None], axis=1)[:, 0]


def as_cell(cell: Any) -> Any:
    """Returns a cell unchanged, and a list of cells as a stack, or raises an error."""
    if isinstance(cell, (list, tuple)):
        cells = [as_cell(part) for part in cell]
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
    """Returns the widths of a cell's states; of a stack, all or of its last cell."""
    while isinstance(cell, keras.layers.StackedRNNCells) and not whole:
        cell = cell.cells[-1]
    return [int(n) for n in keras.tree.flatten(cell.state_size)]


def width_of(cell: Any) -> int:
    """Returns the width of a cell's output."""
    width = getattr(cell, "output_size", None)
    return state_widths(cell)[0] if width is None else int(width)


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


def as_before(new: Any, old: Any) -> Any:
    """Returns a cell's new state in the structure and dtypes of the old state."""
    # Plain Python: at each step, `keras.tree` would take as long as the arithmetic.
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


def check_states(
    initial: Any, expected: Sequence[tuple], count: int, holder: str, batch: str = ""
) -> list[Tensor]:
    """Returns the tensors of an initial state, or raises a ValueError.

    They must have the first `count` of the expected shapes, those of the state of the
    `holder`, or all. Unknown lengths (None, or a symbol of an export) always fit.
    """
    tensors = keras.tree.flatten(initial)
    shapes = [tuple(x.shape) for x in tensors]
    if len(tensors) not in (count, len(expected)):
        widths = [shape[-1] for shape in expected[:count]]
        raise ValueError(
            f"`initial_state` must hold the {count} state(s) of the {holder}, of "
            f"widths {widths}, or the {len(expected)} tensors that `return_state` "
            f"returns. Received: {len(tensors)} tensor(s) of shapes {shapes}"
        )
    for shape, wanted in zip(shapes, expected):
        sizes = [
            pair for pair in zip(shape, wanted) if all(isinstance(n, int) for n in pair)
        ]
        if len(shape) != len(wanted) or any(n != m for n, m in sizes):
            wanted_shapes = expected[: len(tensors)]
            named = [("B" if n is None else n, *sizes) for n, *sizes in wanted_shapes]
            raise ValueError(
                f"`initial_state` must hold tensors of {batch}shapes {named}. "
                f"Received: shapes {shapes}"
            )
    return tensors


def replace_state(state: Any, tensors: list[Tensor]) -> Any:
    """Replaces the tensors of a state, a named tuple, or only those of its `cell`."""
    if len(tensors) == len(keras.tree.flatten(state.cell)):
        return state._replace(cell=packed(state.cell, tensors))
    return type(state)(*packed(tuple(state), tensors))


def has_dropout(cell: Any) -> bool:
    """Returns whether a cell, or any cell of a stack, has dropout."""
    if isinstance(cell, keras.layers.StackedRNNCells):
        return any(map(has_dropout, cell.cells))
    rates = "dropout", "recurrent_dropout"
    return any(getattr(cell, rate, 0) for rate in rates)


def prepare_dropout(cell: Any, width: int, state: Any) -> None:
    """Samples the dropout masks of a cell for inputs (B, D) and a state (B, U)."""
    first = keras.tree.flatten(state)[0]
    if isinstance(cell, keras.layers.StackedRNNCells):
        for layer, part in zip(cell.cells, state):
            prepare_dropout(layer, width, part)
            width = width_of(layer)
    elif hasattr(cell, "get_dropout_mask"):
        cell.get_dropout_mask(ops.zeros((ops.shape(first)[0], width), first.dtype))
        cell.get_recurrent_dropout_mask(first)


def forget_dropout(cell: Any) -> None:
    """Resets the dropout masks of `prepare_dropout` after a sequence."""
    if isinstance(cell, keras.layers.StackedRNNCells):
        for layer in cell.cells:
            forget_dropout(layer)
    elif hasattr(cell, "reset_dropout_mask"):
        cell.reset_dropout_mask()
        cell.reset_recurrent_dropout_mask()


@contextmanager
def sequence_dropout(
    cell: Any, width: int, state: Any, training: bool | None = True
) -> Iterator[None]:
    """Inside this context, a cell of inputs (B, D) has one dropout mask a sequence."""
    if not has_dropout(cell):
        yield
        return
    if training:
        prepare_dropout(cell, width, state)
    try:
        yield
    finally:
        forget_dropout(cell)
