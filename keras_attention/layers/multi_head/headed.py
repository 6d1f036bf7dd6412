"""Multi-head attention without its constructor: weights, call, and what it is made of.

Shapes: B batch, T queries, S keys, D widths, V width of a value, H heads, G heads of
keys and values, E width of a head.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import (
    clone_initializer,
    hand_down,
    policy_of,
)
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.multi_head.heads import (
    FoldedMasks,
    check_inputs,
    check_masks,
    fold_masks,
    head_norm,
    projection,
    single_query,
)
from keras_attention.numerics import axes as folding
from keras_attention.numerics import masks, normalizers
from keras_attention.ops import attend_heads, dot_product_attention
from keras_attention.ops.sinks import sink_attention

Tensor = Any
# Of the queries, the values, the keys, and of pairs.
Masks = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]


class HeadedAttention(keras.layers.Layer):
    """Attention with heads: projections in, attention, a projection out.

    Abstract: a subclass's `__init__` sets the attributes that are named here.
    """

    num_heads: int
    num_key_value_heads: int
    key_dim: int
    value_dim: int
    dropout: float
    use_bias: bool
    use_gate: bool
    sliding_window: int | None
    flash_attention: bool | None
    attention_axes: tuple[int, ...] | None
    normalizer: Any
    position: Any
    query_key_normalization: str | None
    attention_sinks: bool
    soft_cap: float | None
    seed: int | None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        query, value, key = self._shapes(query_shape, value_shape, key_shape)
        self._axes = check_inputs(query, value, key, self.attention_axes)
        rank, heads, groups = len(query), self.num_heads, self.num_key_value_heads
        # Names and order are those of Keras' layer, whose weights then fit.
        self._query_dense = self._project(rank, (heads, self.key_dim), "query")
        self._query_dense.build(query)
        self._key_dense = self._project(rank, (groups, self.key_dim), "key")
        self._key_dense.build(key)
        if self.use_gate:
            self._gate_dense = self._project(
                rank, (heads, self.value_dim), "gate", activation="sigmoid"
            )
            self._gate_dense.build(query)
        self._value_dense = self._project(rank, (groups, self.value_dim), "value")
        self._value_dense.build(value)
        self._dropout_layer = keras.layers.Dropout(
            self.dropout, seed=self.seed, dtype=self.dtype_policy
        )
        width = self._output_shape or (query[-1],)
        self._output_dense = self._project(rank + 1, width, "attention_output", bound=2)
        self._output_dense.build((*query[:-1], heads, self.value_dim))
        if self.position is not None:
            hand_down(self, self.position)
            self.position.build_for(heads, self.key_dim)
        self._query_norm, self._key_norm = (
            head_norm(
                self.query_key_normalization, self.key_dim, name, self.dtype_policy
            )
            for name in ("query_norm", "key_norm")
        )
        self._sinks = None
        if self.attention_sinks:
            self._sinks = self.add_weight((heads,), "zeros", name="attention_sinks")
        self.built = True

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
        single, query, query_mask, attention_mask, bias = single_query(
            query, value, query_mask, attention_mask, bias
        )
        given = (query_mask, value_mask, key_mask, attention_mask)
        checked = self._check(query, value, key, given, use_causal_mask)
        bias = self._check_bias(query, key, bias)
        explicit = return_attention_scores or is_recording()
        q_shape, k_shape = ops.shape(query), ops.shape(key)
        q = folding.fold(self._queries(query), self._axes)  # (B, T, H, E)
        k = folding.fold(self._keys(key), self._axes)  # (B, S, G, E)
        v = folding.fold(self._values(value), self._axes)  # (B, S, G, V)
        t = s = None
        if self.position is not None:
            t, s = (masks.places(ops.shape(x)[1]) for x in (q, k))
            q, k = self._rotate(q, t), self._rotate(k, s)
        if bias is not None:
            bias = folding.fold_mask(bias, q_shape, k_shape, self._axes)
        bias = self._add_bias(bias, t, s)
        window = self._window(ops.shape(q)[1], ops.shape(k)[1])
        folded = fold_masks(q_shape, k_shape, self._axes, *checked, window)
        heads, weights = self._attend(
            q, k, v, folded, bias, explicit, training, use_causal_mask
        )
        heads = folding.unfold(heads, q_shape, self._axes)  # (B, ..., H, V)
        output = self._close(heads, query)
        if weights is not None and len(query.shape) > 3:
            shape = folding.weights_shape(q_shape, k_shape, self.num_heads, self._axes)
            weights = ops.reshape(weights, shape)
        if single:
            output = ops.squeeze(output, axis=1)
            weights = None if weights is None else ops.squeeze(weights, axis=-2)
        if is_recording():
            record(self.path, weights)
        return (output, weights) if return_attention_scores else output

    def compute_output_shape(
        self, query_shape: Any, value_shape: Any, key_shape: Any = None
    ) -> tuple:
        query, value, key = self._shapes(query_shape, value_shape, key_shape)
        check_inputs(query, value, key, self.attention_axes)
        return (*query_shape[:-1], *(self._output_shape or query_shape[-1:]))

    def compute_output_spec(
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
        shape = self.compute_output_shape(query.shape, value.shape, key.shape)
        output = keras.KerasTensor(shape, self.compute_dtype)
        single, query, query_mask, attention_mask, bias = single_query(
            query, value, query_mask, attention_mask, bias
        )
        given = (query_mask, value_mask, key_mask, attention_mask)
        self._check(query, value, key, given, use_causal_mask)
        self._check_bias(query, key, bias)
        if not return_attention_scores:
            return output
        axes = folding.resolve(self.attention_axes, len(query.shape))
        shape = folding.weights_shape(query.shape, key.shape, self.num_heads, axes)
        if single:
            shape = (*shape[:-2], shape[-1])
        return output, keras.KerasTensor(shape, self.compute_dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask

    @property
    def query_dense(self) -> keras.layers.EinsumDense:
        """The projection of the queries."""
        return self._query_dense

    @property
    def key_dense(self) -> keras.layers.EinsumDense:
        """The projection of the keys."""
        return self._key_dense

    @property
    def value_dense(self) -> keras.layers.EinsumDense:
        """The projection of the values."""
        return self._value_dense

    @property
    def output_dense(self) -> keras.layers.EinsumDense:
        """The projection of what the heads found."""
        return self._output_dense

    def _shapes(self, query: Any, value: Any, key: Any) -> tuple[tuple, tuple, tuple]:
        """The shapes with the T axis that a single query lacks."""
        query, value = tuple(query), tuple(value)
        key = value if key is None else tuple(key)
        if len(query) == 2 and len(value) == 3:
            query = (query[0], 1, query[1])
        return query, value, key

    def _project(
        self, rank: int, width: tuple, name: str, bound: int = 1, **more: Any
    ) -> keras.layers.EinsumDense:
        return projection(
            rank,
            bound,
            width,
            name,
            self.use_bias,
            kernel_initializer=clone_initializer(self.kernel_initializer),
            bias_initializer=clone_initializer(self.bias_initializer),
            kernel_regularizer=self.kernel_regularizer,
            bias_regularizer=self.bias_regularizer,
            activity_regularizer=self._activities,
            kernel_constraint=self.kernel_constraint,
            bias_constraint=self.bias_constraint,
            dtype=policy_of(self, name),
            **more,
        )

    def _check(
        self, query: Tensor, value: Tensor, key: Tensor, given: Masks, causal: bool
    ) -> Masks:
        """Holds tensors and masks to each other; the masks as booleans."""
        shapes = (tuple(query.shape), tuple(value.shape), tuple(key.shape))
        axes = check_inputs(*shapes, self.attention_axes)
        ordered = {
            "use_causal_mask": causal,
            "sliding_window": self.sliding_window,
            "position": self.position,
        }
        for name, value_of in ordered.items():
            if value_of and len(axes) > 1:
                raise ValueError(
                    f"`{name}` needs one axis to attend over, along which there is an "
                    f"order. Received: {name}={value_of}, attention_axes={axes}"
                )
        return check_masks(shapes, self.num_heads, axes, *given)

    def _check_bias(self, query: Tensor, key: Tensor, bias: Any) -> Tensor | None:
        axes = folding.resolve(self.attention_axes, len(query.shape))
        return folding.full_bias(bias, query.shape, key.shape, self.num_heads, axes)

    def _queries(self, query: Tensor) -> Tensor:
        """The heads' queries (B, ..., H, E), not yet turned."""
        q = kernels.dense(self._query_dense, query, 1)
        return q if self._query_norm is None else self._query_norm(q)

    def _values(self, value: Tensor) -> Tensor:
        return kernels.dense(self._value_dense, value, 1)

    def _keys(self, key: Tensor) -> Tensor:
        """The heads' keys (B, ..., G, E), not yet turned."""
        k = kernels.dense(self._key_dense, key, 1)
        return k if self._key_norm is None else self._key_norm(k)

    def _rotate(self, x: Tensor, position: Tensor) -> Tensor:
        if self.position is None:
            return x
        # A position that was given as a layer has a dtype of its own.
        return ops.cast(self.position.rotate(x, position), x.dtype)

    def _add_bias(self, bias: Tensor | None, t: Tensor, s: Tensor) -> Tensor | None:
        """What caller and position add to the scores: broadcasts to (B, H, T, S)."""
        own = None if self.position is None else self.position.bias(t, s)
        if own is None or bias is None:
            return bias if own is None else own
        return ops.cast(own, "float32") + ops.cast(bias, "float32")

    def _window(self, queries: Any, keys: Any) -> Tensor | None:
        if self.sliding_window is None:
            return None
        return masks.sliding_window(queries, keys, self.sliding_window)  # (T, S)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        folded: FoldedMasks,
        bias: Tensor | None,
        explicit: bool,
        training: bool | None = None,
        causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Of projected heads (B, ·, H, ·): what they find, and the weights if asked."""
        drops = bool(self.dropout and training)
        if not (explicit or drops) and self._fuses(query.shape[1]):
            more: dict[str, Any] = {
                "mask": folded.pairs,
                "is_causal": causal,
                "bias": bias,
            }
            if self.normalizer == "softmax1" or self.attention_sinks:
                heads = sink_attention(query, key, value, self._sinks, **more)
            else:
                heads = dot_product_attention(query, key, value, **more)
            if folded.rows is not None:
                rows = ops.transpose(folded.rows, (0, 2, 1, 3))  # (B, T, 1, 1)
                heads = ops.where(rows, heads, ops.zeros_like(heads))
            return heads, None
        if causal:
            ahead = masks.causal(ops.shape(query)[1], ops.shape(key)[1])
            pairs = masks.merge(folded.pairs, ops.expand_dims(ahead, (0, 1)))
            folded = folded._replace(pairs=pairs)
        return attend_heads(
            query,
            key,
            value,
            masks.merge(folded.pairs, folded.rows),
            normalizer=self._normalizer(),
            bias=bias,
            dropout=self._drop if drops else None,
            soft_cap=self.soft_cap,
        )

    def _fuses(self, queries: int | None) -> bool:
        """Whether a fused kernel computes this attention."""
        if self.flash_attention is False or self.soft_cap is not None:
            return False
        if self.normalizer == "softmax1" or self.attention_sinks:
            return queries != 1  # of one, weights cost less than one key more
        return self.normalizer == "softmax"

    def _normalizer(self) -> Any:
        if self._sinks is None:
            return self.normalizer
        sink = ops.cast(self._sinks, "float32")[:, None, None]  # (H, 1, 1)
        return partial(normalizers.sink_softmax, sink=sink)

    def _drop(self, weights: Tensor) -> Tensor:
        return self._dropout_layer(weights, training=True)

    def _close(self, heads: Tensor, query: Tensor) -> Tensor:
        """From what the heads found, (B, ..., H, V), to the output."""
        if self.use_gate:
            heads = heads * self._gate_dense(query)
        return kernels.dense(self._output_dense, heads, 2)
