"""Attention with heads: input projections, attention and an output projection.

Shapes: B batch, T queries, S keys, D widths, V width of a value, H heads, G heads of
keys and values, E width of a head.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention import kernels
from keras_attention.layers.base import sampling
from keras_attention.layers.base.attention_layer import Prepared, cache_length
from keras_attention.layers.base.checks import check_usable
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.multi_head import fused_heads, hooks
from keras_attention.layers.multi_head.heads import (
    as_boolean,
    check_call,
    check_kept,
    check_order,
    fold_call,
)
from keras_attention.layers.multi_head.projected_heads import ProjectedHeads
from keras_attention.numerics import axes as folding
from keras_attention.numerics import masks, normalizers
from keras_attention.ops.attention import full_bias, weighted_heads

Tensor = Any


class HeadsAttention(ProjectedHeads):
    """Abstract base class of `MultiHeadAttention` and `Hopfield`.

    A call uses methods with the same names as in Keras' layer. A subclass of Keras'
    layer that overrides these methods can subclass these layers instead; see
    `hooks.py`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        hooks.check_subclass(cls)

    def __init__(self, *arguments: Any, **kwargs: Any) -> None:
        super().__init__(*arguments, **kwargs)
        self._is_subclass = not hooks.is_ours(type(self))
        self._overridden = hooks.overridden(type(self))
        # The kernels know only the usual causal mask.
        own = {"_compute_attention", "_compute_causal_mask"}
        self._takes_causal = not own & self._overridden
        own = {"_compute_attention_mask", "_compute_sliding_window_mask"}
        own.add("_compute_attention")
        self._takes_window = not own & self._overridden
        # An override may still have the older signature of Keras' method.
        self._hook_options = hooks.options_of(type(self)._compute_attention)
        self._normalize = normalizers.get(self.normalizer)

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
        bias: Tensor | None = None,
    ) -> Any:
        key = value if key is None else key
        found = (query_mask, value_mask, key_mask, attention_mask, bias)
        given = check_call(
            query, value, key, *found, self._num_heads, self.attention_axes
        )
        query, axes = given.query, self._attention_axes
        q, k = self._project_queries(query), self._project_keys(key)  # (B, ..., H, E)
        v = kernels.dense(self._value_dense, value, 1)  # (B, ..., G, V)
        folds = len(query.shape) > 3
        if folds:
            check_order(self, axes, use_causal_mask)
            given = fold_call(given, key, axes)
            q, k, v = (folding.fold(x, axes) for x in (q, k, v))  # (B, T, H, E)
        recording = is_recording()
        heads, weights = self._attend_heads(
            q,
            k,
            v,
            given,
            training,
            return_attention_scores or recording,
            use_causal_mask,
        )
        if folds:
            heads = folding.unfold(heads, ops.shape(query), axes)  # (B, ..., H, V)
        output = self._project_output(heads, query)
        if folds and weights is not None:
            shape = ops.shape(query), ops.shape(key)
            shape = folding.weights_shape(*shape, self._num_heads, axes)
            weights = ops.reshape(weights, shape)
        if given.single:
            output = ops.squeeze(output, axis=1)
            weights = None if weights is None else ops.squeeze(weights, axis=-2)
        if recording:
            record(self.path, weights)
        return (output, weights) if return_attention_scores else output

    def _attend_heads(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        given: Any,
        training: bool | None,
        return_weights: bool,
        causal: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the heads' outputs (B, T, H, V) and the weights, with all masks."""
        own = causal and not self._takes_causal
        window = self.sliding_window if self._takes_window else None
        local = {} if window is None else {"use_sliding_window": False}
        mask = self._compute_attention_mask(
            query,
            value,
            query_mask=given.query_mask,
            value_mask=given.value_mask,
            key_mask=given.key_mask,
            attention_mask=given.attention_mask,
            use_causal_mask=own,
            **local,
        )
        heads, weights = hooks.compute_attention(
            self,
            query,
            key,
            value,
            mask,
            training,
            return_attention_scores=return_weights,
            use_causal_mask=causal and not own,
            bias=None if given.bias is None else full_bias(given.bias, query, key),
            sliding_window=window,
        )
        rows = given.query_mask
        if rows is not None:  # masked queries get output 0
            is_valid = ops.expand_dims(rows, (2, 3))  # (B, T, 1, 1)
            heads = ops.where(is_valid, heads, ops.zeros_like(heads))
            if weights is not None:
                is_valid = ops.expand_dims(rows, (1, 3))  # (B, 1, T, 1)
                weights = ops.where(is_valid, weights, ops.zeros_like(weights))
        return heads, weights

    def _compute_attention_mask(
        self,
        query: Tensor,
        value: Tensor,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        use_sliding_window: bool = True,
    ) -> Tensor | None:
        """Merges all masks except the query mask into the smallest possible shape.

        The outputs of masked queries are set to 0 after the attention.

        Returns:
            Booleans that broadcast to (B, T, S) or (B, H, T, S), or None.
        """
        found = [
            ops.expand_dims(mask, 1)  # (B, 1, S)
            for mask in (value_mask, key_mask)
            if mask is not None
        ]
        if attention_mask is not None:
            if len(attention_mask.shape) == 2:
                attention_mask = ops.expand_dims(attention_mask, 0)  # (1, T, S)
            elif len(attention_mask.shape) == 4:
                found = [ops.expand_dims(mask, 1) for mask in found]  # (B, 1, 1, S)
            found.append(attention_mask)
        if use_causal_mask:
            found.append(self._compute_causal_mask(query, value))
        if self.sliding_window is not None and use_sliding_window:
            found.append(self._compute_sliding_window_mask(query, value))
        return masks.merge(*found) if len(found) > 1 else (found or [None])[0]

    def _compute_causal_mask(
        self, query: Tensor, value: Tensor | None = None
    ) -> Tensor:
        """Returns the causal mask (1, T, S), True where a query may attend to a key."""
        keys = query if value is None else value
        mask = masks.causal(ops.shape(query)[1], ops.shape(keys)[1])
        return ops.expand_dims(mask, 0)

    def _compute_sliding_window_mask(
        self, query: Tensor, value: Tensor | None = None
    ) -> Tensor:
        """Returns the window mask (1, T, S), True for distances below the window."""
        keys = query if value is None else value
        sizes = ops.shape(query)[1], ops.shape(keys)[1]
        mask = masks.sliding_window(*sizes, self.sliding_window or 0)
        return ops.expand_dims(mask, 0)

    def _compute_attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
        bias: Tensor | None = None,
        dropout_mask: Tensor | None = None,
        sliding_window: int | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns softmax(q kᵀ / √E) v of projected heads, and the weights or None.

        Args:
            query: (B, T, H, E).
            key: (B, S, G, E).
            value: (B, S, G, V).
            attention_mask: booleans that broadcast to (B, T, S) or (B, H, T, S).
            training: whether to apply dropout.
            return_attention_scores: whether to return the weights as well.
            use_causal_mask: whether query t may attend only to keys 0 … t.
            bias: a tensor that broadcasts to (B, H, T, S), or None.
            dropout_mask: the factors of the weights (B, H, T, S), or None.
            sliding_window: the window, if the mask does not include it; or None.
        """
        mask = attention_mask
        if self._is_subclass:  # it may call this method by itself
            mask = hooks.checked_mask(self, mask)
        drops = bool(self._dropout and training)
        wanted = return_attention_scores or dropout_mask is not None
        fuses = not wanted and self._fuses(query.shape[1])
        if sliding_window is not None and (not fuses or drops or bias is not None):
            mask = masks.merge(mask, self._compute_sliding_window_mask(query, value))
            sliding_window = None
        if fuses and drops:
            found = fused_heads.drop(
                self, query, key, value, mask, use_causal_mask, bias
            )
            if found is not None:
                return found, None
            fuses = False
        if use_causal_mask and not (fuses and self._takes_causal):
            mask = masks.merge(mask, self._compute_causal_mask(query, value))
            use_causal_mask = False
        if fuses:
            if mask is not None and len(mask.shape) == 3:
                mask = ops.expand_dims(mask, 1)  # (B, 1, T, S)
            options = mask, use_causal_mask, bias, sliding_window
            return fused_heads.attend(self, query, key, value, *options), None
        dropout = None
        if dropout_mask is not None:
            dropout = lambda weights: weights * dropout_mask  # noqa: E731
        elif drops:
            dropout = lambda weights: self._dropout_layer(weights, training=True)  # noqa: E731
        scores = bias, self._masked_softmax, self._inverse_sqrt_key_dim, self.soft_cap
        return weighted_heads(query, key, value, mask, *scores, dropout)

    def _masked_softmax(
        self, attention_scores: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        """Normalizes scores (B, H, T, S), with a mask (B, T, S) or (B, H, T, S)."""
        mask = attention_mask
        if self._is_subclass:
            mask = hooks.checked_mask(self, mask)
        if mask is not None and len(mask.shape) == 3:
            mask = ops.expand_dims(mask, 1)  # (B, 1, T, S)
        if self._sinks is None:
            return self._normalize(attention_scores, mask)
        sink = ops.cast(self._sinks, "float32")[:, None, None]  # (H, 1, 1)
        return normalizers.sink_softmax(attention_scores, mask, sink=sink)

    def _fuses(self, queries: int | None) -> bool:
        """Returns whether a fused kernel computes this attention."""
        if self.flash_attention is False or self.soft_cap is not None:
            return False
        if "_masked_softmax" in self._overridden:
            return False
        if self.normalizer == "softmax1" or self._sinks is not None:
            # The kernel needs an extra key, which is slower for a single query.
            return queries != 1 and self._inverse_sqrt_key_dim == self._key_dim**-0.5
        return self.normalizer == "softmax"

    def sample(self, shape: tuple[Any, Any, Any], training: bool | None) -> Any:
        if not (self._dropout and training):
            return None
        batch, queries, keys = shape
        sizes = (batch, queries, self._num_heads, keys)  # (B, T, H, S)
        seeds = self._dropout_layer.seed_generator, self._dropout_layer.seed
        return sampling.dropout_mask(sizes, self._dropout, self.compute_dtype, *seeds)

    def prepare(
        self, value: Tensor, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Prepared:
        check_usable(self, "prepare", value)
        mask = masks.check("mask", as_boolean("mask", mask), tuple(value.shape[:2]))
        value = ops.cast(value, self.compute_dtype)
        key = value if key is None else ops.cast(key, self.compute_dtype)
        v = kernels.dense(self._value_dense, value, 1)
        return Prepared(self._project_keys(key), v, mask)

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        check_kept(self, "prepared", query, prepared)
        q = self._project_queries(query)
        heads, weights = self._attend_prepared(
            q, prepared, mask, random, return_weights
        )
        return self._project_output(heads, query), weights, state

    def _attend_prepared(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        random: Tensor | None,
        return_weights: bool,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attends from projected queries (B, T, H, E) to a prepared memory."""
        if self._overridden:
            hooks.check_steps(self)
        factors = None if random is None else ops.swapaxes(random, 1, 2)
        return hooks.compute_attention(
            self,
            query,
            prepared.key,
            prepared.value,
            mask,
            None,
            return_attention_scores=return_weights,
            bias=bias,
            dropout_mask=factors,
        )

    def initial_cache(
        self, batch: Any, length: int, width: int | None = None
    ) -> Prepared:
        check_usable(self, "initial_cache", None)
        positions = cache_length(length)
        heads = (batch, positions, self.num_key_value_heads)
        return Prepared(
            ops.zeros((*heads, self._key_dim), self.compute_dtype),
            ops.zeros((*heads, self._value_dim), self.compute_dtype),
            ops.zeros((batch, positions), "bool"),
        )
