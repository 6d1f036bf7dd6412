"""Attention with a score and a normalizer.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers import scores
from keras_attention.layers.base.arguments import (
    fraction,
    resolve_normalizer,
)
from keras_attention.layers.base.attention_layer import Prepared
from keras_attention.layers.base.one_head_attention import OneHeadAttention
from keras_attention.numerics import normalizers
from keras_attention.ops import dot_product_attention
from keras_attention.ops.attention import weighted_values

Tensor = Any


class NormalizedAttention(OneHeadAttention):
    """Attention with normalized scores as weights, and optional dropout.

    Abstract: a subclass defines `attend_from_state`. This method can call
    `attend_to_all` if each query attends to all keys.

    Args:
        score: a name, a config, or a `Score`.
        normalizer: a name, a config, or a callable f(scores, mask).
        dropout: the fraction of attention weights dropped during training.
        seed: the random seed of the dropout.
    """

    def __init__(
        self,
        score: Any,
        normalizer: Any,
        dropout: float,
        seed: int | None,
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

    def attend_to_all(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        dropout_mask: Tensor | None,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the output, and the weights (None if a fused kernel is used).

        weights = normalize(score(query, key))      (B, T, S)
        output  = weights · value                   (B, T, V)
        """
        if self._is_fused and not return_weights and dropout_mask is None:
            output = dot_product_attention(
                ops.expand_dims(query, 2),  # one head: (B, T, 1, D)
                ops.expand_dims(prepared.key, 2),
                ops.expand_dims(prepared.value, 2),
                None if mask is None else mask[:, None],
                None if self.score.scaled else 1.0,
            )
            return output[:, :, 0], None
        return weighted_values(
            self.score.project_query(query),
            prepared.key,
            prepared.value,
            self.score.compare,
            self._normalize,
            mask,
            dropout_mask,
        )
