"""The one protocol of attention layers.

Whoever holds an attention (`AttentionRNN`, the blocks of a Transformer, a model) uses
these verbs and nothing else, so that any attention layer takes the place of another.

Shapes: B batch, T queries, S keys, P positions of a cache, H heads, Dq, Dk widths,
V width of a value.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.checks import check_usable
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.numerics import masks

Tensor = Any


class Prepared(NamedTuple):
    """A memory that is ready to be attended to; the batch is the first axis of each."""

    key: Any  # what the layer made of the keys, (B, S, ·) or a structure of such
    value: Tensor  # (B, S, V); with heads (B, S, G, V)
    mask: Tensor | None = None  # (B, S), True = may attend


class AttentionLayer(keras.layers.Layer, abc.ABC):
    """What every attention layer offers. Abstract.

    A subclass defines `call`, `prepare` and `attend_from_state`; where its step depends
    on the last one, also `initial_state` and `state_shapes`; where anything is random,
    `sample`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    @property
    def learns_by_weights(self) -> bool:
        """Whether the gradient of its score flows through the returned weights alone.

        A model that does not use them must refuse such a layer.
        """
        return False

    @abc.abstractmethod
    def prepare(
        self, value: Tensor, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Prepared:
        """Projects a memory once, for many calls of `attend`.

        For use inside another layer's `call`, once this layer is built.

        Args:
            value: (B, S, V).
            key: (B, S, Dk); defaults to the value.
            mask: booleans (B, S), True = may attend.

        Returns:
            What `attend` takes.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
        """

    @abc.abstractmethod
    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        """The layer's equations, for T queries from a state on.

        Args:
            query: (B, T, Dq), in the compute dtype.
            prepared: what `prepare` returned; its own mask is not applied here.
            mask: booleans that broadcast to (B, T, S), or None.
            state: that of the query before the first.
            random: what `sample` returned, or None.
            return_weights: whether the weights are wanted.

        Returns:
            The output (B, T, ·); the weights (B, T, S) or (B, H, T, S), or None where
            they are not wanted and not at hand; the state after the last query.
        """

    def attend(
        self, query: Tensor, prepared: Prepared, state: Any = None, random: Any = None
    ) -> tuple[Tensor, Tensor, Any]:
        """One step of attention over a prepared memory, or T of them.

        For use inside another layer's `call`, once this layer is built.

        Args:
            query: (B, T, Dq) or (B, Dq).
            prepared: what `prepare` returned.
            state: what the last step returned as its state; by default that of
                `initial_state`.
            random: what `sample` returned for these queries, without the T axis where
                they have none; by default nothing is random, and nothing is dropped.

        Returns:
            The output (B, T, ·); the weights (B, T, S) or (B, H, T, S), both without
            the T axis where the query has none; the state, `()` where a step does not
            depend on the last one.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
        """
        check_usable(self, "attend", query)
        query = ops.cast(query, self.compute_dtype)
        single = len(query.shape) == 2
        if single:
            query = ops.expand_dims(query, 1)  # (B, 1, Dq)
            if random is not None:
                random = keras.tree.map_structure(lambda x: x[:, None], random)
        if state is None:
            state = self.initial_state(prepared)
        mask = None if prepared.mask is None else ops.expand_dims(prepared.mask, 1)
        output, weights, state = self.attend_from_state(
            query, prepared, mask, state, random, True
        )
        if single:
            output, weights = ops.squeeze(output, 1), ops.squeeze(weights, -2)
        return output, weights, state

    def context(
        self, query: Tensor, prepared: Prepared, state: Any = None
    ) -> tuple[Tensor, Any]:
        """`attend` without its weights: fused where the backend can.

        Inside `record_attention` the weights are recorded.

        Args:
            query: (B, T, Dq) or (B, Dq).
            prepared: what `prepare` returned.
            state: what the last step returned as its state.

        Returns:
            The output (B, T, ·), without the T axis where the query has none, and the
            state.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
        """
        if is_recording():
            output, weights, state = self.attend(query, prepared, state)
            record(self.path, weights)
            return output, state
        check_usable(self, "context", query)
        query = ops.cast(query, self.compute_dtype)
        single = len(query.shape) == 2
        query = ops.expand_dims(query, 1) if single else query
        if state is None:
            state = self.initial_state(prepared)
        mask = None if prepared.mask is None else ops.expand_dims(prepared.mask, 1)
        output, _, state = self.attend_from_state(
            query, prepared, mask, state, None, False
        )
        return (ops.squeeze(output, 1) if single else output), state

    def initial_state(self, prepared: Prepared) -> Any:
        """What the first step must know: a structure of tensors (B, ·), or `()`."""
        return ()

    def state_shapes(self, shape: tuple[Any, Any]) -> list[tuple]:
        """The shapes of `initial_state`, flat, from (B, S)."""
        return []

    def sample(self, shape: tuple[Any, Any, Any], training: bool | None) -> Any:
        """The random numbers that T queries need, drawn before any loop.

        Args:
            shape: (B, T, S), numbers or tensors.
            training: whether this is a step of training.

        Returns:
            A structure of tensors (B, T, ·), or None where nothing is random.
        """
        return None

    def output_width(self, query_width: int, value_width: int) -> int:
        """The width of the output, from those of query and value."""
        return value_width

    def weights_shape(self, batch: Any, queries: Any, keys: Any) -> tuple:
        """The shape of the weights, (B, T, S) or (B, H, T, S)."""
        return (batch, queries, keys)

    def initial_cache(
        self, batch: Any, length: int, width: int | None = None
    ) -> Prepared:
        """An empty cache for `step`.

        Args:
            batch: B, a number or a tensor.
            length: P, how many steps there will be at most.
            width: the width of the inputs; layers that project them know it.

        Raises:
            RuntimeError: if this layer is not built.
            ValueError: if a step of this layer depends on the last one.
        """
        self._check_steps("initial_cache")
        shape = (batch, positive("length", length))
        inputs = ops.zeros((*shape, positive("width", width)), self.compute_dtype)
        return self.prepare(inputs, mask=ops.zeros(shape, "bool"))

    def step(
        self, inputs: Tensor, cache: Any, index: Any, mask: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Causal self-attention of the next inputs over all that came before.

        The same as `layer(x, x, use_causal_mask=True)` at these positions of x. For use
        inside another layer's `call`, once this layer is built, and where no gradient
        flows.

        Args:
            inputs: (B, T, D) the next T, such as a prompt, or (B, D) the next one.
            cache: what `initial_cache` or the last step returned. It must not be used
                any more: torch writes to it.
            index: the position of the first of them, a number or a tensor.
            mask: booleans (B, T), or (B,) for one; nobody ever attends to what is
                False, such as the padding of a prompt.

        Returns:
            The output (B, T, ·), without the T axis where the inputs have none, and
            the cache.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
            ValueError: if a step of this layer depends on the last one.
        """
        self._check_steps("step", inputs)
        inputs = ops.cast(inputs, self.compute_dtype)
        single = len(inputs.shape) == 2
        mask = masks.check("mask", mask, tuple(inputs.shape[:-1]))
        if mask is None:
            mask = ops.ones(ops.shape(inputs)[:-1], "bool")
        if single:
            inputs, mask = ops.expand_dims(inputs, 1), ops.expand_dims(mask, 1)
        new = self.prepare(inputs, mask=mask)
        cache = keras.tree.map_structure(
            lambda old, late: write_steps(old, late, index), cache, new
        )
        t = masks.places(inputs.shape[1], index)
        s = ops.arange(cache.mask.shape[1])
        seen = ops.logical_and(cache.mask[:, None], s[None] <= t[:, None])  # (B, T, P)
        output, weights, _ = self.attend_from_state(
            inputs, cache, seen, (), None, is_recording()
        )
        if is_recording():
            record(self.path, ops.squeeze(weights, -2) if single else weights)
        return (ops.squeeze(output, 1) if single else output), cache

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask

    def _check_steps(self, method: str, inputs: Tensor | None = None) -> None:
        check_usable(self, method, inputs)
        if self.state_shapes((1, 1)):
            raise ValueError(
                f"Layer {self.name!r} cannot attend to its own inputs step by step: a "
                "step of it depends on where the last one attended among all keys, of "
                "which there are more at each step. Use it over a memory (`prepare` "
                f"and `attend`), or another attention. Received: {method} of a "
                f"{type(self).__name__}"
            )


def write_steps(old: Tensor, new: Tensor, index: Any) -> Tensor:
    """A part of a cache (B, P, ...) with (B, T, ...) from position `index` on."""
    if new.shape[1] == 1:
        return kernels.write(old, index, new[:, 0])
    return ops.slice_update(old, (0, index, *[0] * (len(old.shape) - 2)), new)
