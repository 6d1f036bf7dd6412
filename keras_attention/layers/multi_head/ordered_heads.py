"""Attention with heads and positions: rotations, windows and single steps.

Shapes: B batch, T queries, S keys, P positions of a cache, D width, H heads, G heads of
keys and values, E width of a head, V width of a value.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import pass_on_policies
from keras_attention.layers.base.attention_layer import (
    Prepared,
    cache_length,
    check_room,
)
from keras_attention.layers.base.checks import check_usable
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.multi_head import hooks
from keras_attention.layers.multi_head.cache import write_cache
from keras_attention.layers.multi_head.heads import Call, as_boolean, check_kept
from keras_attention.layers.multi_head.heads_attention import HeadsAttention
from keras_attention.numerics import masks

Tensor = Any


class OrderedHeads(HeadsAttention):
    """Abstract base class of attention with heads, positions and single steps.

    The `__init__` of a subclass sets `position` and `sliding_window`.
    """

    position: Any
    sliding_window: int | None

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        if self.position is not None:
            pass_on_policies(self, self.position)
            self.position.build_for(self._num_heads, self._key_dim)

    def step(
        self, inputs: Tensor, cache: Prepared, index: Any, mask: Tensor | None = None
    ) -> tuple[Tensor, Prepared]:
        check_usable(self, "step", inputs)
        if self._overridden:
            hooks.check_steps(self, is_causal=True)
        inputs = ops.cast(inputs, self.compute_dtype)
        single = len(inputs.shape) == 2
        mask = masks.check("mask", as_boolean("mask", mask), tuple(inputs.shape[:-1]))
        if mask is None:
            mask = ops.ones(ops.shape(inputs)[:-1], "bool")
        if single:
            inputs, mask = ops.expand_dims(inputs, 1), ops.expand_dims(mask, 1)
        window = self.sliding_window
        check_kept(self, "cache", inputs, cache)
        if cache.key.shape[1] != window:  # a ring buffer always has room
            check_room(inputs, cache, index)
        t = masks.positions(ops.shape(inputs)[1], index)
        value = kernels.dense(self._value_dense, inputs, 1)
        new = Prepared(self._rotate(self._project_keys(inputs), t), value, mask)
        seen, s, cache = write_cache(cache, new, index, t, window)
        allowed = s[None] <= t[:, None]  # (T, P)
        if window is not None:
            allowed = ops.logical_and(allowed, masks.near(t, s, window))
        heads, weights = self._attend_prepared(
            self._rotate(self._project_queries(inputs), t),
            seen,
            ops.logical_and(ops.expand_dims(seen.mask, 1), allowed[None]),  # (B, T, P)
            None,
            is_recording(),
            self._own_bias(t, s),
        )
        output = self._project_output(heads, inputs)
        if is_recording():
            record(self.path, ops.squeeze(weights, axis=-2) if single else weights)
        return (ops.squeeze(output, axis=1) if single else output), cache

    def initial_cache(
        self, batch: Any, length: int, width: int | None = None
    ) -> Prepared:
        """Returns an empty cache for `step`.

        The cache is at most as long as the sliding window: new positions overwrite
        those that have left the window.
        """
        check_usable(self, "initial_cache", None)
        length, window = cache_length(length), self.sliding_window
        if window is not None:
            length = min(length, window) if isinstance(length, Integral) else window
        return super().initial_cache(batch, length)

    def initial_state(self, prepared: Prepared) -> Any:
        """Returns the position of the next query, (B,) float32, or `()` if unused."""
        if not self._counts:
            return ()
        return ops.zeros((ops.shape(prepared.key)[0],), "float32")

    def state_shapes(self, shape: tuple[Any, Any]) -> list[tuple]:
        return [shape[:1]] if self._counts else []

    def prepare(
        self, value: Tensor, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Prepared:
        prepared = super().prepare(value, key, mask)
        if self.position is None:
            return prepared
        s = masks.positions(ops.shape(prepared.key)[1])
        return prepared._replace(key=self._rotate(prepared.key, s))

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        if not self._counts:
            return super().attend_from_state(
                query, prepared, mask, state, random, return_weights
            )
        check_kept(self, "prepared", query, prepared)
        steps = ops.shape(query)[1]
        first = ops.cast(ops.expand_dims(state, 1), "int32")  # (B, 1)
        t = masks.positions(steps, first)  # (B, T)
        s = masks.positions(ops.shape(prepared.key)[1])
        if self.sliding_window is not None:
            near = masks.near(t, s, self.sliding_window)  # (B, T, S)
            mask = masks.merge(mask, near)
        q = self._rotate(self._project_queries(query), t)
        heads, weights = self._attend_prepared(
            q, prepared, mask, random, return_weights, self._own_bias(t, s)
        )
        return (
            self._project_output(heads, query),
            weights,
            state + ops.cast(steps, state.dtype),
        )

    @property
    def _sliding_window(self) -> int | None:
        """The sliding window, under its name in Keras' layer."""
        return self.sliding_window

    @property
    def _counts(self) -> bool:
        """Whether the attention depends on the positions of queries."""
        return self.position is not None or self.sliding_window is not None

    def _attend_heads(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        given: Call,
        training: bool | None,
        return_weights: bool,
        causal: bool,
    ) -> tuple[Tensor, Tensor | None]:
        if self.position is not None:
            t, s = (masks.positions(ops.shape(x)[1]) for x in (query, key))
            query, key = self._rotate(query, t), self._rotate(key, s)
            own = self._own_bias(t, s)
            if own is not None and given.bias is not None:
                own = ops.cast(own, "float32") + ops.cast(given.bias, "float32")
            given = given if own is None else given._replace(bias=own)
        return super()._attend_heads(
            query, key, value, given, training, return_weights, causal
        )

    def _rotate(self, x: Tensor, position: Tensor) -> Tensor:
        """Rotates queries or keys (B, T, H, E) at positions (T,) or (B, T)."""
        if self.position is None:
            return x
        # A position layer may have another compute dtype than this layer.
        return ops.cast(self.position.rotate(x, position), x.dtype)

    def _own_bias(self, t: Tensor, s: Tensor) -> Tensor | None:
        """Returns the position's bias, which broadcasts to (B, H, T, S), or None."""
        bias = None if self.position is None else self.position.bias(t, s)
        if bias is None or len(bias.shape) == 4:
            return bias
        return ops.expand_dims(bias, 0)  # (1, H, T, S)
