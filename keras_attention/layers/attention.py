"""Attention with any score and any normalizer.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers import scores
from keras_attention.layers.arguments import resolve_normalizer, serialize_normalizer
from keras_attention.layers.base import AttentionLayer, Prepared
from keras_attention.layers.export import export
from keras_attention.ops import attend, dot_product_attention, normalizers
from keras_attention.ops.scores import check_widths

Tensor = Any


@export
class Attention(AttentionLayer):
    """Weights each value by how alike its key is to the query.

        weights = normalize(score(query, key))      (B, T, S)
        output  = weights · value                   (B, T, V)

    With `score="dot"` and nothing else it has no weights: called as `layer(x, x)` it
    is the parameter-free self-attention with which the story of attention begins.

    Args:
        score: "dot", "scaled_dot", "cosine", "rbf", "general", or a score such as
            `AdditiveScore(units=64)`.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15", "hardmax" or
            "linear"; or a registered callable f(scores, mask).
        dropout: the fraction of weights that are dropped while training.
        seed: of the dropout.

    Called as `keras.layers.MultiHeadAttention` is: `layer(query, value, key)`, not with
    a list.

    Call arguments:
        query: (B, T, Dq), or (B, Dq) for one query, whose T axis is then left out of
            everything that is returned.
        value: (B, S, V).
        key: (B, S, Dk), by default the value.
        query_mask: booleans (B, T).
        value_mask: booleans (B, S).
        key_mask: booleans (B, S).
        attention_mask: booleans (T, S) or (B, T, S); (B, S) for one query.
        return_attention_scores: whether to return the weights, too.
        training: whether to drop weights.
        use_causal_mask: whether query t may see only keys 0 … t.

    Returns:
        (B, T, V) in the compute dtype; with `return_attention_scores=True` also the
        weights (B, T, S), before dropout.

    Masking:
        Boolean, True = may attend. Masks that the tensors carry are used where none
        is given. A query that may attend to nothing gets weights 0 and output 0. The
        output carries the mask that the query tensor carries.

    Raises:
        ValueError: for an unknown score or normalizer, a mask of another dtype, rank
            or shape, or tensors whose widths do not fit the score.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import Attention
    >>> words = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    >>> output, weights = Attention()(words, words, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 3), (2, 5, 5))
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
        if not 0 <= dropout < 1:
            raise ValueError(
                f"`dropout` must be at least 0 and below 1. Received: dropout={dropout}"
            )
        self.dropout = dropout
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None

    def build(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> None:
        key_shape = key_shape or value_shape or query_shape
        if not self.score.built:
            self.score.build(query_shape, key_shape)
        self.built = True

    def project_key(self, key: Tensor) -> Tensor:
        return self.score.project_key(key)

    def check_widths(self, query: Tensor, value: Tensor, key: Tensor) -> None:
        if not self.score.widths_may_differ:
            check_widths(query, key)

    def draw(self, shape: tuple[Any, Any, Any], training: bool | None) -> Any:
        if not (self.dropout and training):
            return None
        ones = ops.ones(shape, self.compute_dtype)
        return keras.random.dropout(ones, self.dropout, seed=self.seed_generator)

    def look(
        self,
        query: Tensor,
        memory: Prepared,
        mask: Tensor | None,
        explicit: bool,
        drawn: Any = None,
    ) -> tuple[Tensor, Tensor | None]:
        if self._is_fused and not explicit and drawn is None:
            return self._fused(query, memory, mask), None
        return attend(
            self.score.project_query(query),
            memory.key,
            memory.value,
            self.score.compare,
            self._normalize,
            mask,
            keep=drawn,
        )

    def get_config(self) -> dict[str, Any]:
        score = keras.saving.serialize_keras_object(self.score)
        # The layer that is made from this builds its score, under its own name.
        score.pop("build_config", None)
        return {
            **super().get_config(),
            "score": score,
            "normalizer": serialize_normalizer(self.normalizer),
            "dropout": self.dropout,
            "seed": self.seed,
        }

    @property
    def _is_fused(self) -> bool:
        return self.normalizer == "softmax" and type(self.score) is scores.DotScore

    def _fused(self, query: Tensor, memory: Prepared, mask: Tensor | None) -> Tensor:
        scale = None if self.score.scaled else 1.0
        output = dot_product_attention(
            query[:, :, None, :],  # one head: (B, T, 1, D)
            memory.key[:, :, None, :],
            memory.value[:, :, None, :],
            None if mask is None else mask[:, None],
            scale,
        )
        return ops.squeeze(output, axis=2)
