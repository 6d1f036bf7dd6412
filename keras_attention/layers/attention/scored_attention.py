"""What the attention layers with a score have in common: it, and what follows it.

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
    serialize_normalizer,
)
from keras_attention.layers.base.attention_layer import AttentionLayer, Prepared
from keras_attention.numerics import normalizers
from keras_attention.ops import attend, dot_product_attention
from keras_attention.ops.scores import check_widths

Tensor = Any


class ScoredAttention(AttentionLayer):
    """Attention that asks a score, which it holds, how alike queries and keys are.

    Abstract.

    Args:
        score: its name, its config, or a `Score`; None where a subclass's `build`
            makes it.
    """

    def __init__(self, score: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.score: Any = (
            None if score is None else scores.get(score, dtype=self.dtype_policy)
        )

    def build(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> None:
        if not self.score.built:
            self.score.build(query_shape, key_shape or value_shape or query_shape)
        self.built = True

    def project_key(self, key: Tensor) -> Tensor:
        return self.score.project_key(key)

    def check_widths(self, query: Tensor, value: Tensor, key: Tensor) -> None:
        if self.score is not None and not self.score.widths_may_differ:
            check_widths(query, key)

    def score_config(self) -> dict[str, Any]:
        """What a config holds of the score."""
        config = keras.saving.serialize_keras_object(self.score)
        # The layer that is made from this builds its score, under its own name.
        config.pop("build_config", None)
        return config


class NormalizedAttention(ScoredAttention):
    """Attention whose weights are scores behind a normalizer; some may be dropped.

        weights = normalize(score(query, key))      (B, T, S)
        output  = weights · value                   (B, T, V)

    Abstract: an `__init__` of its own, and whatever goes beyond these two lines, make
    it a layer.

    Args:
        score: its name, its config, or a `Score`.
        normalizer: its name, its config, or a callable f(scores, mask).
        dropout: the fraction of weights that are dropped while training.
        seed: of the dropout.
    """

    def __init__(
        self,
        score: Any,
        normalizer: Any,
        dropout: float,
        seed: int | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(score, **kwargs)
        self.normalizer = resolve_normalizer(normalizer)
        self._normalize = normalizers.get(self.normalizer)
        fraction("dropout", dropout)
        self.dropout = dropout
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None

    def draw(self, shape: tuple[Any, Any, Any], training: bool | None) -> Any:
        if not (self.dropout and training):
            return None
        ones = ops.ones(shape, self.compute_dtype)
        return keras.random.dropout(ones, self.dropout, seed=self.seed_generator)

    def raise_key(self, key: Tensor) -> Tensor | None:
        return self.score.raise_key(key)

    def comparing(self, query: Tensor, memory: Prepared) -> Any:
        """The score as f(query, key), of projected queries (B, T, ·)."""
        if memory.power is None or query.shape[1] != 1:
            return self.score.compare
        return lambda q, k: self.score.compare_one(q, k, memory.power)

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
        return self.weigh(self.score.project_query(query), memory, mask, drawn)

    def weigh(
        self, query: Tensor, memory: Prepared, mask: Tensor | None, drawn: Any
    ) -> tuple[Tensor, Tensor]:
        """The two lines above, of queries (B, T, ·) that the score has projected."""
        return attend(
            query,
            memory.key,
            memory.value,
            self.comparing(query, memory),
            self._normalize,
            mask,
            keep=drawn,
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
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
