"""The base class of attention layers with one head.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attention.layers.base import sampling
from keras_attention.layers.base.attention_layer import AttentionLayer, Prepared
from keras_attention.layers.base.cells import time_swapped
from keras_attention.layers.base.checked import (
    MASK_NAMES,
    Masks,
    call_arguments,
    check_call,
    check_usable,
    merge_masks,
)
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.numerics import masks
from keras_attention.ops.scores import check_widths
from keras_attention.ops.sequence import loop

Tensor = Any


class OneHeadAttention(AttentionLayer):
    """Abstract base class of one-head attention over unprojected values.

    The weights have shape (B, T, S). A subclass defines `attend_from_state`, and checks
    widths in `check_widths`. If it compares queries and keys with a `Score`, this is
    its attribute `score`. If it drops weights, it also has a `dropout` rate, a `seed`
    and a `seed_generator`.

    The arguments of a call are described in `Attention`.
    """

    dropout = 0.0
    seed: int | None = None
    seed_generator: Any = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.score: Any = None

    def build(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> None:
        if self.score is not None and not self.score.built:
            self.score.build(query_shape, key_shape or value_shape or query_shape)
        self.built = True

    def project_key(self, key: Tensor) -> Tensor:
        """Returns the projected keys, (B, S, ·)."""
        return key if self.score is None else self.score.project_key(key)

    def precompute_key(self, key: Tensor) -> Any:
        """Prepares projected keys for many calls with one query each."""
        return key if self.score is None else self.score.precompute_key(key)

    def check_widths(self, query: Tensor, value: Tensor, key: Tensor) -> None:
        if self.score is not None and not self.score.widths_may_differ:
            check_widths(query, key)

    def sample(self, shape: tuple[Any, Any, Any], training: bool | None) -> Any:
        """Returns a dropout mask (B, T, S), or None."""
        if not (self.dropout and training):
            return None
        return sampling.dropout_mask(
            shape, self.dropout, self.compute_dtype, self.seed_generator, self.seed
        )

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        key = value if key is None else key
        if self.scans_queries and len(query.shape) == 3:
            loop.check_length(query.shape[1])
        masked = Masks(query_mask, value_mask, key_mask, attention_mask)
        query, masked, _, single = check_call(query, value, key, masked)
        self.check_widths(query, value, key)
        (batch, queries), keys = ops.shape(query)[:2], ops.shape(key)[1]
        mask = None
        if use_causal_mask or any(x is not None for x in masked):
            mask = merge_masks(masked, (queries, keys) if use_causal_mask else None)
        prepared = Prepared(self.project_key(key), value)
        recording = is_recording()
        output, weights, _ = self.attend_from_state(
            query,
            prepared,
            mask,
            self.initial_state(prepared),
            self.sample((batch, queries, keys), training),
            return_attention_scores or recording is not None,
        )
        if single:
            output = ops.squeeze(output, axis=1)
            weights = None if weights is None else ops.squeeze(weights, axis=1)
        if recording is not None:
            record(self.path, weights)
        return (output, weights) if return_attention_scores else output

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        call = call_arguments(self, args, kwargs)
        query, value, key = call["query"], call["value"], call.get("key")
        key = value if key is None else key
        check_call(query, value, key, Masks(*map(call.get, MASK_NAMES)))
        self.check_widths(query, value, key)
        width = self.output_width(query.shape[-1], value.shape[-1])
        output = keras.KerasTensor((*query.shape[:-1], width), self.compute_dtype)
        shape = (*query.shape[:-1], key.shape[1])
        weights = keras.KerasTensor(shape, self.compute_dtype)
        return (output, weights) if call.get("return_attention_scores") else output

    def prepare(
        self, value: Tensor, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Prepared:
        check_usable(self, "prepare", value)
        if mask is not None:
            mask = masks.check("mask", mask, tuple(value.shape[:2]))
        value = ops.cast(value, self.compute_dtype)
        key = value if key is None else ops.cast(key, self.compute_dtype)
        key = self.precompute_key(self.project_key(key))
        return Prepared(key, value, mask)


def scan_queries(
    step: Callable[[Any, Any], tuple[Any, Any]],
    state: Any,
    inputs: tuple[Any, ...],
    mask: Tensor | None,
) -> tuple[Any, Any]:
    """Runs a step for each query; fully masked queries do not change the state.

    Args:
        step: a function of the state and of a tuple, the inputs of one query and its
            mask (B, S) or None, that returns the next state and an output.
        state: the initial state.
        inputs: tensors (B, T, ...), structures of such tensors, or None.
        mask: booleans (B, T, S), or None.

    Returns:
        The last state and the outputs (B, T, ...).
    """
    structure = (*inputs, mask)
    flat = keras.tree.flatten(structure)
    tensors = [x for x in flat if x is not None]

    def step_query(state: Any, now: list[Tensor]) -> tuple[Any, Any]:
        left = iter(now)
        filled = [None if x is None else next(left) for x in flat]
        arguments = keras.tree.pack_sequence_as(structure, filled)
        new, output = step(state, arguments)
        if mask is not None:
            new = loop.choose(ops.any(arguments[-1], axis=-1), new, state)
        return new, output

    if tensors[0].shape[1] == 1:
        state, output = step_query(state, [x[:, 0] for x in tensors])
        return state, keras.tree.map_structure(lambda x: x[:, None], output)
    state, outputs = loop.scan(step_query, state, time_swapped(tensors))
    return state, time_swapped(outputs)


def full_mask(mask: Tensor | None, query: Tensor, keys: Any) -> Tensor | None:
    """Broadcasts a mask, if any, to the shape (B, T, S) of a query and S keys."""
    if mask is None:
        return None
    return ops.broadcast_to(mask, (*ops.shape(query)[:2], keys))
