"""Multi-head attention, in place of `keras.layers.MultiHeadAttention`.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value, H heads, G heads
of keys and values, E width of a head.
"""

from __future__ import annotations

from typing import Any

from keras_attention.layers import positions
from keras_attention.layers.base.arguments import (
    policy_config,
    positive,
    resolve_normalizer,
)
from keras_attention.layers.base.serialization import as_config, config_of, export
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

    It takes the place of `keras.layers.MultiHeadAttention`: same arguments, same call,
    same weights in the same order, same numbers from them. It differs where that one
    is wrong: no mask of an input is altered, an explicit `query_mask` counts, a query
    that may attend to nothing gets 0 from every head on every path, and dropout slows
    down nothing but training.

    Args:
        num_heads: H, how many heads of queries.
        key_dim: E, the width of each head's queries and keys.
        value_dim: the width of each head's values; by default `key_dim`.
        dropout: the fraction of attention weights dropped during training.
        use_bias: whether the projections have biases.
        output_shape: the sizes of the output's last axes; by default the width of the
            query.
        attention_axes: the axes to attend over; by default all but the batch and the
            features.
        sliding_window: if given, a query sees only the keys less than so many steps
            away, either side.
        flash_attention: False to compute the weights explicitly in any case. Else the
            backend's fused attention is taken wherever it can do what is asked for.
        kernel_initializer: of the projections.
        bias_initializer: of their biases.
        kernel_regularizer: of the projections.
        bias_regularizer: of their biases.
        activity_regularizer: of what the projections return.
        kernel_constraint: of the projections.
        bias_constraint: of their biases.
        use_gate: whether each head's output is multiplied by a sigmoid of a projection
            of the query.
        seed: the random seed of the dropout.
        num_key_value_heads: G, how many heads of keys and values; it divides H. Fewer
            than H: grouped queries; 1: multi-query. By default H.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15", "hardmax" or
            "linear"; or a registered callable f(scores, mask).
        position: "rotary", "alibi", "relative", or a layer `RotaryEmbedding`,
            `AlibiBias` or `RelativePositionBias`.
        query_key_normalization: "rms" or "layer", to normalize the E numbers of each
            query and each key before they are turned or compared; each of the two has
            a learned scale, shared by the heads.
        attention_sinks: whether each head has a learned score of nothing, which takes
            part in the softmax and has no value: weights then sum to less than one.
        soft_cap: c, where each score z becomes c tanh(z / c) before anything is added
            to it.

    Call arguments:
        query: (B, T, Dq), or (B, Dq) for one query. With one query, the outputs have
            no T axis. Any other axes may stand between the first and
            the last.
        value: (B, S, V).
        key: (B, S, Dk); defaults to the value.
        query_mask: booleans (B, T).
        value_mask: booleans (B, S).
        key_mask: booleans (B, S).
        attention_mask: booleans (T, S), (B, T, S) or (B, H, T, S).
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.
        use_causal_mask: whether query t may attend only to keys 0 … t.
        bias: numbers to add to the scores before the normalizer, (T, S), (H, T, S) or
            (B, H, T, S).

    Returns:
        (B, T, Dq), or (B, T, *output_shape), in the compute dtype; with
        `return_attention_scores=True` also the weights (B, H, T, S), before dropout.

    Masking:
        Boolean, True = may attend; numbers 0 and 1 are taken, too. Masks that the
        tensors carry are used where none is given, and are not altered. A query that
        may attend to nothing gets weights 0, and 0 from each head: the output is then
        the bias of the last projection. The output carries the mask that the query
        tensor carries.

    Raises:
        ValueError: for sizes that are not positive, heads that do not divide, an odd
            `key_dim` with rotary positions, an unknown name, sinks beside another
            normalizer than the softmax, tensors or masks that do not fit each other, or
            a causal mask, window or position over several axes.

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
        Transformers" (2020), as here: Dehghani et al., "Scaling vision Transformers to
        22 billion parameters" (2023), section 2; sinks: Xiao et al., "Efficient
        streaming language models with attention sinks" (2024), as here: OpenAI,
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

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        if self.attention_sinks:
            shape = (self._num_heads,)
            self._sinks = self.add_weight(shape, "zeros", name="attention_sinks")

    @classmethod
    def from_keras(cls, layer: Any) -> MultiHeadAttention:
        """The same attention as a layer of Keras computes, with its weights.

        Args:
            layer: a `keras.layers.MultiHeadAttention` or
                `keras.layers.GroupQueryAttention`.

        Returns:
            A layer of the same name, built with the same weights if the other is built.

        Raises:
            ValueError: if it is neither; or a subclass, whose changes would be lost; or
                if a projection holds more than kernel and bias, as after
                `enable_lora` or `quantize`.
        """
        made = cls(**from_keras.arguments_of(layer))
        from_keras.take_weights(made, layer)
        return made

    @classmethod
    def from_torch(cls, module: Any, **kwargs: Any) -> MultiHeadAttention:
        """The same attention as `torch.nn.MultiheadAttention` computes.

        Its masks mean the opposite: there, True is what may not be attended to.

        Args:
            module: a `torch.nn.MultiheadAttention`, whatever its `batch_first`.
            **kwargs: of the layer, such as its name.

        Returns:
            A layer that is built and has the module's weights.

        Raises:
            ValueError: if it is none, or adds keys of its own.
        """
        made = cls(**from_torch.arguments_of(module), **kwargs)
        from_torch.take_weights(made, module)
        return made

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "dtype": policy_config(self),
            **config_of(
                self,
                "num_heads",
                "key_dim",
                "value_dim",
                "dropout",
                "use_bias",
                "attention_axes",
                "sliding_window",
                "flash_attention",
                "use_gate",
                "seed",
                "num_key_value_heads",
                "query_key_normalization",
                "attention_sinks",
                "soft_cap",
                "kernel_initializer",
                "bias_initializer",
                "kernel_regularizer",
                "bias_regularizer",
                "kernel_constraint",
                "bias_constraint",
                "normalizer",
                "position",
            ),
            "activity_regularizer": as_config(self._activity_regularizer),
            "output_shape": as_config(self._output_shape),
        }

    def _build_gate(self, query_shape: tuple) -> None:
        if self.use_gate:
            width = (self._num_heads, self._value_dim)
            self._gate_dense = self._projection(
                len(query_shape), width, "gate", activation="sigmoid"
            )
            self._gate_dense.build(query_shape)
