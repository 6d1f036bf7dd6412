"""Attention whose steps depend on each other.

Shapes: B batch, T queries, S keys, Dq width of a query, V width of a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.attention_layer import AttentionLayer, Prepared
from keras_attention.ops.sequence import loop

Tensor = Any


class StatefulAttention(AttentionLayer):
    """Attention in which a query must know what the last one attended to.

    A subclass says what one query does, `look_once`, and where the first one starts,
    `initial_state`; here the queries are taken one after the other. A query that may
    attend to nothing leaves the state as it was. Abstract.
    """

    def look_once(
        self,
        query: Tensor,
        memory: Prepared,
        mask: Tensor | None,
        state: Any,
        drawn: Any = None,
    ) -> tuple[Tensor, Tensor, Any]:
        """The equations of one query.

        Args:
            query: (B, Dq).
            memory: keys (B, S, ·) and values (B, S, V).
            mask: booleans (B, S), or None.
            state: what the last query left, (B, ·).
            drawn: what `draw` returned, for this query: (B, ·).

        Returns:
            The output (B, V), the weights (B, S), and the next state, of the same
            structure, shapes and dtypes.
        """
        raise TypeError(f"{type(self).__name__} has to define `look_once`")

    def look(
        self,
        query: Tensor,
        memory: Prepared,
        mask: Tensor | None,
        explicit: bool,
        drawn: Any = None,
    ) -> tuple[Tensor, Tensor | None]:
        state = self.initial_state(memory)
        output, weights, _ = self.look_on(query, memory, mask, state, drawn)
        return output, weights

    def look_on(
        self,
        query: Tensor,
        memory: Prepared,
        mask: Tensor | None,
        state: Any,
        drawn: Any = None,
    ) -> tuple[Tensor, Tensor, Any]:
        def step(state: Any, now: Any) -> tuple[Any, tuple[Tensor, Tensor]]:
            query, drawn, mask = now
            output, weights, state = self.look_once(query, memory, mask, state, drawn)
            return state, (output, weights)

        mask = full_mask(mask, query, memory)
        state, (output, weights) = each_query(step, state, (query, drawn), mask)
        return output, weights, state


def full_mask(mask: Tensor | None, query: Tensor, memory: Prepared) -> Tensor | None:
    """A mask that broadcasts to (B, T, S), in that shape."""
    if mask is None:
        return None
    shape = (*ops.shape(query)[:2], ops.shape(memory.key)[1])
    return ops.broadcast_to(mask, shape)


def each_query(
    step: Callable[[Any, Any], tuple[Any, Any]],
    state: Any,
    inputs: tuple[Any, ...],
    mask: Tensor | None,
) -> tuple[Any, Any]:
    """Takes a step for each query; those that may attend to nothing keep the state.

    Args:
        step: f(state, (*inputs of one query, its mask (B, S) or None)) that returns
            the next state and an output.
        state: the first state.
        inputs: tensors (B, T, ...), structures of them, or None.
        mask: booleans (B, T, S), or None.

    Returns:
        The last state and the outputs (B, T, ...).
    """
    structure = (*inputs, mask)
    flat = keras.tree.flatten(structure)
    there = [x for x in flat if x is not None]

    def one(state: Any, now: list[Tensor]) -> tuple[Any, Any]:
        left = iter(now)
        filled = [None if x is None else next(left) for x in flat]
        arguments = keras.tree.pack_sequence_as(structure, filled)
        new, output = step(state, arguments)
        if mask is not None:
            new = loop.choose(ops.any(arguments[-1], axis=-1), new, state)
        return new, output

    if there[0].shape[1] == 1:
        state, output = one(state, [x[:, 0] for x in there])
        return state, keras.tree.map_structure(lambda x: x[:, None], output)
    state, outputs = loop.scan(one, state, [ops.swapaxes(x, 0, 1) for x in there])
    return state, keras.tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), outputs)
