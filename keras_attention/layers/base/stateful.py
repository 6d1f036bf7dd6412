"""Stateful attention, which processes the queries one after the other.

Shapes: B batch, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attention.ops.sequence import loop

Tensor = Any


def scan_queries(
    step: Callable[[Any, Any], tuple[Any, Any]],
    state: Any,
    inputs: tuple[Any, ...],
    mask: Tensor | None,
) -> tuple[Any, Any]:
    """Runs a step for each query; fully masked queries do not change the state.

    Args:
        step: a function f(state, arguments) that returns the next state and an output.
            `arguments` is a tuple: the inputs of one query, then the mask (B, S) of
            this query, or None.
        state: the initial state.
        inputs: a tuple whose items are tensors (B, T, ...), structures of such tensors,
            or None.
        mask: booleans (B, T, S), or None.

    Returns:
        The last state and the outputs (B, T, ...).
    """
    structure = (*inputs, mask)
    flat = keras.tree.flatten(structure)
    given = [x for x in flat if x is not None]

    def one(state: Any, now: list[Tensor]) -> tuple[Any, Any]:
        left = iter(now)
        filled = [None if x is None else next(left) for x in flat]
        arguments = keras.tree.pack_sequence_as(structure, filled)
        new, output = step(state, arguments)
        if mask is not None:
            new = loop.choose(ops.any(arguments[-1], axis=-1), new, state)
        return new, output

    if given[0].shape[1] == 1:
        state, output = one(state, [x[:, 0] for x in given])
        return state, keras.tree.map_structure(lambda x: x[:, None], output)
    state, outputs = loop.scan(one, state, [ops.swapaxes(x, 0, 1) for x in given])
    return state, keras.tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), outputs)


def full_mask(mask: Tensor | None, query: Tensor, keys: Any) -> Tensor | None:
    """Broadcasts a mask to the shape (B, T, S).

    Args:
        mask: booleans, or None.
        query: (B, T, Dq).
        keys: S, an integer or a tensor.
    """
    if mask is None:
        return None
    return ops.broadcast_to(mask, (*ops.shape(query)[:2], keys))
