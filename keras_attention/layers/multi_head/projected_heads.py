"""The projections of attention with heads, with the names of Keras' layer.

Shapes: B batch, T queries, S keys, D widths, V width of a value, H heads, G heads of
keys and values, E width of a head.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import keras

from keras_attention import kernels
from keras_attention.layers.base.arguments import (
    clone_initializer,
    fraction,
    policy_of,
    positive,
)
from keras_attention.layers.base.attention_layer import AttentionLayer
from keras_attention.layers.multi_head import hooks
from keras_attention.layers.multi_head.heads import (
    attention_equations,
    check_call,
    check_inputs,
    check_order,
    head_norm,
    integers,
    projection,
    with_time,
)
from keras_attention.numerics import axes as folding

Tensor = Any


def _public(name: str) -> property:
    """Returns a property that reads and sets the attribute `name`."""
    return property(attrgetter(name), lambda layer, value: setattr(layer, name, value))


class ProjectedHeads(AttentionLayer):
    """Abstract base class of attention with projections for each head.

    The sublayers and the methods that build them have the same names as in
    `keras.layers.MultiHeadAttention`. Subclasses may use or override them.

    Args:
        num_heads: H.
        num_key_value_heads: G.
        key_dim: E, or None if `build` determines it.
        value_dim: the width of each head's values, or None if `build` determines it.
        dropout: the fraction of attention weights dropped during training.
        normalizer: a name, or a callable f(scores, mask).
        seed: the random seed of the dropout.
    """

    # Only `MultiHeadAttention` has these options.
    attention_axes: tuple[int, ...] | None = None
    sliding_window: int | None = None
    flash_attention: bool | None = None
    soft_cap: float | None = None

    # Public names of what a subclass of Keras' layer reads and sets.
    kernel_initializer = _public("_kernel_initializer")
    bias_initializer = _public("_bias_initializer")
    kernel_regularizer = _public("_kernel_regularizer")
    bias_regularizer = _public("_bias_regularizer")
    kernel_constraint = _public("_kernel_constraint")
    bias_constraint = _public("_bias_constraint")

    def __init__(
        self,
        num_heads: int,
        num_key_value_heads: int,
        key_dim: int | None,
        value_dim: int | None,
        dropout: float,
        normalizer: Any,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._num_heads = positive("num_heads", num_heads)
        self.num_key_value_heads = num_key_value_heads
        self._key_dim: Any = key_dim
        self._value_dim: Any = value_dim
        self._inverse_sqrt_key_dim = None if key_dim is None else key_dim**-0.5
        self._dropout = fraction("dropout", dropout)
        self.normalizer = normalizer
        self.seed = seed
        self._query_norm = self._key_norm = None
        self._gate_dense: Any = None
        self._sinks: Any = None  # the sink score of each head, (H,)

    def set_projections(
        self,
        use_bias: bool = True,
        output_shape: Any = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        query_key_normalization: str | None = None,
    ) -> None:
        """Sets the arguments of the projections; see `MultiHeadAttention`."""
        self._use_bias = use_bias
        # The name `output_shape` is taken: Keras uses it for the shape of outputs.
        self._output_shape = integers("output_shape", output_shape)
        self._kernel_initializer = keras.initializers.get(kernel_initializer)
        self._bias_initializer = keras.initializers.get(bias_initializer)
        self._kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self._bias_regularizer = keras.regularizers.get(bias_regularizer)
        # Only the projections use it. Keras would apply an attribute
        # `activity_regularizer` to the output of this layer.
        self._activity_regularizer = keras.regularizers.get(activity_regularizer)
        self._kernel_constraint = keras.constraints.get(kernel_constraint)
        self._bias_constraint = keras.constraints.get(bias_constraint)
        self.query_key_normalization = query_key_normalization

    @property
    def num_heads(self) -> int:
        """H, the number of query heads."""
        return self._num_heads

    @property
    def key_dim(self) -> Any:
        """E, the width of each head's queries and keys."""
        return self._key_dim

    @property
    def value_dim(self) -> Any:
        """The width of each head's values."""
        return self._value_dim

    @property
    def dropout(self) -> float:
        """The fraction of attention weights dropped during training."""
        return self._dropout

    @property
    def use_bias(self) -> bool:
        """Whether the projections have biases."""
        return self._use_bias

    @property
    def output_shape(self) -> Any:
        """The argument `output_shape`."""
        return self._output_shape

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
        """The projection of the concatenated heads."""
        return self._output_dense

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        query, value, key = with_time(query_shape, value_shape, key_shape)
        check_inputs(query, value, key, self.attention_axes)
        rank, heads, groups = len(query), self._num_heads, self.num_key_value_heads
        # The names and the order match Keras' layer, so weights of that layer fit.
        self._query_dense = self._projection(rank, (heads, self._key_dim), "query")
        self._query_dense.build(query)
        self._key_dense = self._projection(rank, (groups, self._key_dim), "key")
        self._key_dense.build(key)
        self._build_gate(query)
        self._value_dense = self._projection(rank, (groups, self._value_dim), "value")
        self._value_dense.build(value)
        projections = self._query_dense, self._key_dense, self._value_dense
        for dense, shape in zip(projections, (query, key, value)):
            # The einsum of a backend would repeat inputs of width 1.
            dense.input_spec = keras.layers.InputSpec(axes={-1: shape[-1]})
        self._build_attention(rank + 1)
        common = self._get_common_kwargs_for_sublayer()
        self._output_dense = self._make_output_dense(query, common, "attention_output")
        self._output_dense.build((*query[:-1], self._num_heads, self._value_dim))
        kind, policy = self.query_key_normalization, self.dtype_policy
        self._query_norm = head_norm(kind, self._key_dim, "query_norm", policy)
        self._key_norm = head_norm(kind, self._key_dim, "key_norm", policy)
        self.built = True

    def _build_gate(self, query_shape: tuple) -> None:
        """Builds the gate after the keys, to keep the order of weights in Keras."""

    def _build_attention(self, rank: int) -> None:
        """Sets the attributes that Keras' layer has for projections of this rank."""
        self._attention_axes = folding.resolve(self.attention_axes, rank - 1)
        equations = attention_equations(rank, self._attention_axes)
        self._dot_product_equation, self._combine_equation = equations
        if self._inverse_sqrt_key_dim is None:
            self._inverse_sqrt_key_dim = self._key_dim**-0.5
        scores = len(equations[1].partition(",")[0])  # the rank of the scores
        keys = tuple(range(scores - len(self._attention_axes), scores))
        self._softmax = keras.layers.Softmax(keys, dtype=self.dtype_policy)
        self._dropout_layer = keras.layers.Dropout(
            self._dropout, seed=self.seed, dtype=self.dtype_policy
        )
        self._parts = hooks.parts_of(self)

    def _get_common_kwargs_for_sublayer(self) -> dict[str, Any]:
        """Returns the arguments of each projection, with cloned initializers."""
        return {
            "kernel_initializer": clone_initializer(self._kernel_initializer),
            "bias_initializer": clone_initializer(self._bias_initializer),
            "kernel_regularizer": self._kernel_regularizer,
            "bias_regularizer": self._bias_regularizer,
            "activity_regularizer": self._activity_regularizer,
            "kernel_constraint": self._kernel_constraint,
            "bias_constraint": self._bias_constraint,
            "dtype": self.dtype_policy,
        }

    def _make_output_dense(
        self, query_shape: Any, common_kwargs: dict[str, Any], name: Any = None
    ) -> Any:
        """Returns the projection of the heads (B, ..., H, V) to the output."""
        width = self._output_shape or (query_shape[-1],)
        rank = len(query_shape) + 1
        return self._projection(rank, width, name, 2, common_kwargs)

    def _projection(
        self,
        rank: int,
        width: tuple,
        name: str,
        bound: int = 1,
        common: dict[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        """Returns a dense layer for the last `bound` axes of inputs of this rank."""
        options = common or self._get_common_kwargs_for_sublayer()
        if options.get("dtype") is self.dtype_policy:  # an override may choose another
            options = {**options, "dtype": policy_of(self, name)}
        return projection(rank, bound, width, name, self._use_bias, **options, **more)

    def _project_queries(self, query: Tensor) -> Tensor:
        """Returns the queries of the heads, (B, ..., H, E)."""
        q = kernels.dense(self._query_dense, query, 1)
        norm = self._query_norm
        return q if norm is None else kernels.normalize(norm, q)

    def _project_keys(self, key: Tensor) -> Tensor:
        """Returns the keys of the heads, (B, ..., G, E)."""
        k = kernels.dense(self._key_dense, key, 1)
        norm = self._key_norm
        return k if norm is None else kernels.normalize(norm, k)

    def _project_output(self, heads: Tensor, query: Tensor) -> Tensor:
        """Applies the gate and the output projection to the heads (B, ..., H, V)."""
        if self._gate_dense is not None:
            heads = heads * self._gate_dense(query)
        return kernels.dense(self._output_dense, heads, 2)

    def compute_output_shape(
        self, query_shape: Any, value_shape: Any, key_shape: Any = None
    ) -> tuple:
        query, value, key = with_time(query_shape, value_shape, key_shape)
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
        given = (query_mask, value_mask, key_mask, attention_mask, bias)
        call = check_call(
            query, value, key, *given, self._num_heads, self.attention_axes
        )
        axes = folding.resolve(self.attention_axes, len(call.query.shape))
        check_order(self, axes, use_causal_mask)
        if not return_attention_scores:
            return output
        shape = call.query.shape, key.shape
        shape = folding.weights_shape(*shape, self._num_heads, axes)
        shape = (*shape[:-2], shape[-1]) if call.single else shape
        return output, keras.KerasTensor(shape, self.compute_dtype)

    def output_width(self, query_width: int, value_width: int) -> int:
        return (self._output_shape or (query_width,))[-1]

    def weights_shape(self, batch: Any, queries: Any, keys: Any) -> tuple:
        return (batch, self._num_heads, queries, keys)
