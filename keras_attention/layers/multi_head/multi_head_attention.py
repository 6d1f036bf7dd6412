"""Multi-head attention, a replacement for `keras.layers.MultiHeadAttention`.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value, H heads, G heads
of keys and values, E width of a head.
"""

from __future__ import annotations

from typing import Any

from keras_attention.layers import positions
from keras_attention.layers.base.arguments import (
    positive,
    resolve_normalizer,
)
from keras_attention.layers.base.serialization import as_config, export
from keras_attention.layers.multi_head import from_keras, from_torch
from keras_attention.layers.multi_head.heads import (
    check_scores,
    integers,
)
from keras_attention.layers.multi_head.ordered_heads import OrderedHeads

Tensor = Any


@export
class MultiHeadAttention(OrderedHeads):
    """Several heads of attention, each with its own projections.

        headₕ  = softmax(Wₕ q · (Uₕ k)ᵀ / √E) Vₕ v
        output = O [head₁, …, head_H]

    The layer replaces `keras.layers.MultiHeadAttention`. It has the same arguments, the
    same call, the same weights in the same order, and the same results. It fixes these
    defects of Keras' layer: the masks of the inputs stay unchanged, an explicit
    `query_mask` has an effect, a fully masked query gets output 0 from every head on
    every path, and a dropout rate does not slow down inference.

    Args:
        num_heads: H, the number of query heads.
        key_dim: E, the width of each head's queries and keys.
        value_dim: the width of each head's values; defaults to `key_dim`.
        dropout: the fraction of attention weights dropped during training.
        use_bias: whether the projections have biases.
        output_shape: the sizes of the last axes of the output; defaults to the width of
            the query.
        attention_axes: the axes to attend over; defaults to all axes except the batch
            and the features.
        sliding_window: w; query t attends only to keys s with |t − s| < w, before and
            after t unless the call is causal. None for no window.
        flash_attention: False always computes the weights explicitly. Otherwise the
            layer uses the backend's fused attention whenever it supports the call.
        kernel_initializer: the initializer of the kernels.
        bias_initializer: the initializer of the biases.
        kernel_regularizer: the regularizer of the kernels.
        bias_regularizer: the regularizer of the biases.
        activity_regularizer: the regularizer of the outputs of the projections.
        kernel_constraint: the constraint of the kernels.
        bias_constraint: the constraint of the biases.
        use_gate: whether to multiply each head's output by a sigmoid of a projection
            of the query.
        seed: the random seed of the dropout.
        num_key_value_heads: G, the number of key and value heads, which must divide H.
            A number below H gives grouped-query attention, and 1 gives multi-query
            attention. Defaults to H.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15", "hardmax" or
            "linear"; or a registered callable f(scores, mask).
        position: "rotary", "alibi", "relative", or a layer `RotaryEmbedding`,
            `AlibiBias` or `RelativePositionBias`.
        query_key_normalization: "rms" or "layer" normalizes the E entries of each query
            and key before rotation and comparison. Queries and keys have separate
            learned scales, shared by the heads.
        attention_sinks: whether each head has a learned sink score without a value.
            The sink takes part in the softmax, so the weights sum to less than one.
        soft_cap: c; each score z becomes c tanh(z / c) before any bias is added. None
            for no cap.

    Call arguments:
        query: (B, T, Dq), or (B, Dq) for one query. With one query, the outputs have
            no T axis. More axes are allowed between the first and the last.
        value: (B, S, V).
        key: (B, S, Dk); defaults to the value.
        query_mask: booleans (B, T).
        value_mask: booleans (B, S).
        key_mask: booleans (B, S).
        attention_mask: booleans (T, S), (B, T, S) or (B, H, T, S).
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.
        use_causal_mask: whether query t may attend only to keys 0 … t.
        bias: a tensor added to the scores before the normalizer, (T, S), (H, T, S) or
            (B, H, T, S).

    Returns:
        The output, (B, T, Dq) or (B, T, *output_shape), in the compute dtype. With
        `return_attention_scores=True`, also the weights (B, H, T, S) before dropout.

    Masking:
        Boolean, True = may attend; numbers 0 and 1 are accepted. If a mask is not
        given, the mask that the tensor carries is used, and the layer does not modify
        it. A fully masked query gets weights 0 and output 0 from each head, so the
        output is the bias of the output projection. The output carries the mask of the
        query tensor.

    Raises:
        ValueError: for sizes that are not positive; a `num_key_value_heads` that does
            not divide `num_heads`; an odd `key_dim` with rotary positions; an unknown
            name; sinks with a normalizer other than the softmax; tensors or masks that
            do not fit each other; or a causal mask, window or position over several
            axes.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import MultiHeadAttention
    >>> words = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    >>> attention = MultiHeadAttention(4, 2, num_key_value_heads=2, position="rotary")
    >>> output, weights = attention(
    ...     words, words, use_causal_mask=True, return_attention_scores=True
    ... )
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 8), (2, 4, 5, 5))

    Reference:
        Vaswani et al., "Attention is all you need" (2017), section 3.2; shared heads:
        Shazeer, "Fast Transformer decoding" (2019), Ainslie et al., "GQA" (2023); the
        gate: Qiu et al., "Gated attention for large language models" (2025);
        normalized queries and keys: Henry et al., "Query-key normalization for
        Transformers" (2020), this form: Dehghani et al., "Scaling vision Transformers
        to 22 billion parameters" (2023), section 2; sinks: Xiao et al., "Efficient
        streaming language models with attention sinks" (2024), this form: OpenAI,
        "gpt-oss-120b & gpt-oss-20b model card" (2025); the soft cap: Gemma Team,
        "Gemma 2" (2024), section 2.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: Any = None,
        attention_axes: Any = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_gate: bool = False,
        seed: int | None = None,
        num_key_value_heads: int | None = None,
        normalizer: Any = "softmax",
        position: Any = None,
        query_key_normalization: str | None = None,
        attention_sinks: bool = False,
        soft_cap: float | None = None,
        **kwargs: Any,
    ) -> None:
        groups = num_heads if num_key_value_heads is None else num_key_value_heads
        positive("num_heads", num_heads)
        if num_heads % positive("num_key_value_heads", groups):
            raise ValueError(
                "`num_key_value_heads` must divide `num_heads`. Received: "
                f"num_heads={num_heads}, num_key_value_heads={groups}"
            )
        positive("key_dim", key_dim)
        value_dim = key_dim if value_dim is None else positive("value_dim", value_dim)
        normalizer = resolve_normalizer(normalizer)
        check_scores(query_key_normalization, attention_sinks, soft_cap, normalizer)
        super().__init__(
            num_heads, groups, key_dim, value_dim, dropout, normalizer, seed, **kwargs
        )
        self.set_projections(
            use_bias,
            output_shape,
            kernel_initializer,
            bias_initializer,
            kernel_regularizer,
            bias_regularizer,
            activity_regularizer,
            kernel_constraint,
            bias_constraint,
            query_key_normalization,
        )
        self.attention_axes = integers("attention_axes", attention_axes)
        if sliding_window is not None:
            sliding_window = positive("sliding_window", sliding_window)
        self.sliding_window = sliding_window
        self.flash_attention = flash_attention
        self.use_gate = use_gate
        self.position: Any = positions.get(position, dtype=self.dtype_policy)
        self.attention_sinks = attention_sinks
        self.soft_cap = soft_cap

    @property
    def _use_gate(self) -> bool:
        """The argument `use_gate`, under its name in Keras' layer."""
        return self.use_gate

    @property
    def _flash_attention(self) -> bool | None:
        """The argument `flash_attention`, under its name in Keras' layer."""
        return self.flash_attention

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        if self.attention_sinks:
            shape = (self._num_heads,)
            self._sinks = self.add_weight(shape, "zeros", name="attention_sinks")

    @classmethod
    def from_keras(cls, layer: Any) -> MultiHeadAttention:
        """Creates the layer from an attention layer of Keras, with its weights.

        Args:
            layer: a `keras.layers.MultiHeadAttention` or
                `keras.layers.GroupQueryAttention`.

        Returns:
            A layer with the same name. If `layer` is built, the new layer is built and
            has the same weights.

        Raises:
            ValueError: for any other layer, including subclasses; or if a projection
                has weights other than kernel and bias, as after `enable_lora` or
                `quantize`.
        """
        made = cls(**from_keras.arguments_of(layer))
        from_keras.take_weights(made, layer)
        return made

    @classmethod
    def from_torch(cls, module: Any, **kwargs: Any) -> MultiHeadAttention:
        """Creates the layer from a `torch.nn.MultiheadAttention`, with its weights.

        Masks in torch have the opposite meaning: True = may not attend.

        Args:
            module: a `torch.nn.MultiheadAttention` with any value of `batch_first`.
            **kwargs: arguments of the layer, such as its name.

        Returns:
            A built layer with the weights of the module.

        Raises:
            ValueError: for any other module, or if the module adds extra keys.
        """
        made = cls(**from_torch.arguments_of(module), **kwargs)
        from_torch.take_weights(made, module)
        return made

    def get_config(self) -> dict[str, Any]:
        regularizer = as_config(self._activity_regularizer)
        return {**super().get_config(), "activity_regularizer": regularizer}

    def _build_gate(self, query_shape: tuple) -> None:
        if self.use_gate:
            width = (self._num_heads, self._value_dim)
            self._gate_dense = self._projection(
                len(query_shape), width, "gate", activation="sigmoid"
            )
            self._gate_dense.build(query_shape)
