"""Attention with any score and any normalizer.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers import scores
from keras_attention.layers.base.arguments import fraction, resolve_normalizer
from keras_attention.layers.base.attention_layer import Prepared
from keras_attention.layers.base.one_head_attention import OneHeadAttention
from keras_attention.layers.base.serialization import export
from keras_attention.numerics import normalizers
from keras_attention.ops import dot_product_attention
from keras_attention.ops.attention import weighted_values

Tensor = Any


class NormalizedAttention(OneHeadAttention):
    """Base class of attention with normalized scores as weights, and dropout.

    weights = normalize(score(query, key))      (B, T, S)
    output  = weights · value                   (B, T, V)
    """

    def __init__(
        self,
        score: Any = "dot",
        normalizer: Any = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.score = scores.get(score, dtype=self.dtype_policy)
        self.normalizer = resolve_normalizer(normalizer)
        self._normalize = normalizers.get(self.normalizer)
        self.dropout = fraction("dropout", dropout)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None
        softmax = self.normalizer == "softmax"
        self._is_fused = softmax and type(self.score) is scores.DotScore

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        if self._is_fused and not return_weights and random is None:
            output = dot_product_attention(
                ops.expand_dims(query, 2),  # one head: (B, T, 1, D)
                ops.expand_dims(prepared.key, 2),
                ops.expand_dims(prepared.value, 2),
                None if mask is None else mask[:, None],
                None if self.score.scaled else 1.0,
            )
            return output[:, :, 0], None, state
        output, weights = weighted_values(
            self.score.project_query(query),
            prepared.key,
            prepared.value,
            self.score.compare,
            self._normalize,
            mask,
            dropout_mask=random,
        )
        return output, weights, state


@export
class Attention(NormalizedAttention):
    """Weights each value by the similarity of its key and the query.

        weights = normalize(score(query, key))      (B, T, S)
        output  = weights · value                   (B, T, V)

    The default score "dot" has no learned parameters, so `layer(x, x)` computes
    self-attention without parameters.

    Args:
        score: "dot", "scaled_dot", "cosine", "rbf", "general", or a score such as
            `AdditiveScore(units=64)`.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15", "hardmax" or
            "linear"; or a registered callable f(scores, mask).
        dropout: the fraction of attention weights dropped during training.
        seed: the random seed of the dropout.

    Call it like `keras.layers.MultiHeadAttention`, as `layer(query, value, key)`, not
    with a list.

    Call arguments:
        query: (B, T, Dq), or (B, Dq) for one query. With one query, the outputs have
            no T axis.
        value: (B, S, V).
        key: (B, S, Dk); defaults to the value.
        query_mask: booleans (B, T).
        value_mask: booleans (B, S).
        key_mask: booleans (B, S).
        attention_mask: booleans (T, S) or (B, T, S); (B, S) for one query.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.
        use_causal_mask: whether query t may attend only to keys 0 … t.

    Returns:
        The output (B, T, V) in the compute dtype. With `return_attention_scores=True`,
        also the weights (B, T, S) before dropout.

    Masking:
        Boolean, True = may attend. If a mask is not given, the mask that the tensor
        carries is used. A query with all keys masked gets weights 0 and output 0. The
        output carries the mask of the query tensor.

    Raises:
        ValueError: for an unknown score or normalizer, a mask with the wrong dtype,
            rank or shape, or tensors with widths that do not fit the score.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import Attention
    >>> words = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    >>> output, weights = Attention()(words, words, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 3), (2, 5, 5))
    """
