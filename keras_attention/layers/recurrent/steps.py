"""What surrounds the equations of `AttentionRNN`: its state, and how it is handed.

Shapes: B batch, T steps, S keys, U units, V width of a value, A width of the
attentional vector.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention.layers.base.attention_layer import AttentionLayer
from keras_attention.layers.base.cells import state_widths
from keras_attention.layers.base.packing import packed

Tensor = Any


class State(NamedTuple):
    """What one step of an `AttentionRNN` hands to the next."""

    cell: Any  # s, the cell's own state: a structure of (B, U)
    fed: Any  # h̃, what input feeding feeds, (B, A); `()` without
    attention: Any  # of each attention, `()` where it has none


class Seen(NamedTuple):
    """What one step of an `AttentionRNN` returns."""

    output: Tensor  # the cell's own output (B, U), or h̃ (B, A) where it is fed
    context: Tensor  # c (B, V)
    weights: Any  # α of each attention, (B, S); `()` where they are not wanted


def as_attentions(attention: Any) -> list[AttentionLayer]:
    """A list of attentions, from one or several.

    Raises:
        ValueError: if there is none, or one is none of this package.
    """
    found = list(attention) if isinstance(attention, (list, tuple)) else [attention]
    for one in found or [None]:
        if not isinstance(one, AttentionLayer):
            raise ValueError(
                "`attention` must be an attention layer of keras_attention, or a "
                f"list of them. Received: attention={attention!r}"
            )
    return found


def given_state(cell: Any, state: State, given: Any) -> State:
    """A user's state in the place of the first one.

    Args:
        cell: the cell.
        state: the first state.
        given: the cell's states, or all of them, as a structure of tensors.

    Raises:
        ValueError: if there are more or fewer of them, or of other shapes.
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


def state_shapes(
    cell: Any,
    fed: int | None,
    attentions: list,
    values: list[Tensor],
    batch: Any,
    dtype: str,
) -> list[tuple]:
    """The shapes and dtypes of a `State`, flat.

    Args:
        cell: the cell.
        fed: A, the width of what is fed, or None.
        attentions: the attentions.
        values: the memory of each, (B, S, V).
        batch: B.
        dtype: of all but the attentions' states, which are float32.
    """
    found = [((batch, n), dtype) for n in state_widths(cell, True)]
    found += [] if fed is None else [((batch, fed), dtype)]
    for one, value in zip(attentions, values):
        shapes = one.state_shapes(tuple(value.shape[:2]))
        found += [(shape, "float32") for shape in shapes]
    return found


def look(
    attentions: list, query: Tensor, state: State, prepared: tuple, drawn: Any
) -> tuple[Tensor, tuple, tuple]:
    """c, α and the state of each attention for queries (B, U) or (B, T, U)."""
    seen = []
    for n, (one, memory) in enumerate(zip(attentions, prepared)):
        numbers = drawn[n] if drawn else None
        numbers = None if isinstance(numbers, tuple) and not numbers else numbers
        seen.append(one.attend(query, memory, state.attention[n], numbers))
    contexts, weights, states = zip(*seen)
    context = contexts[0] if len(contexts) == 1 else ops.concatenate(contexts, -1)
    return context, weights, states


def check_memories(memory: Tensor, key: Tensor) -> None:
    """Raises a ValueError unless memory and key are (B, S, ·), with S > 0."""
    for name, tensor in (("memory", memory), ("key", key)):
        if len(tensor.shape) != 3:
            raise ValueError(
                f"`{name}` must have shape (batch, length, width). "
                f"Received: {name}.shape={tuple(tensor.shape)}"
            )
    if None not in (key.shape[1], memory.shape[1]) and key.shape[1] != memory.shape[1]:
        raise ValueError(
            "`key` and `memory` must have the same length (axis 1). Received: "
            f"key.shape={tuple(key.shape)}, memory.shape={tuple(memory.shape)}"
        )
    if memory.shape[1] == 0:
        raise ValueError(
            "`memory` must hold at least one entry to attend to; hide entries with "
            f"`memory_mask`. Received: memory.shape={tuple(memory.shape)}"
        )


def each(attentions: list, given: Any, name: str, shapes: bool = False) -> list[Any]:
    """One for each attention: a list as it is, one tensor (or shape) repeated."""
    several = isinstance(given, (list, tuple)) and (
        not shapes or isinstance(given[0], (list, tuple))
    )
    if not several:
        return [given] * len(attentions)
    if len(given) != len(attentions):
        raise ValueError(
            f"`{name}` must be one tensor or a list of one for each attention, of "
            f"which there are {len(attentions)}. Received: {len(given)}"
        )
    return list(given)


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
