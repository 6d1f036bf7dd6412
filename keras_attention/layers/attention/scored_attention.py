"""Base class of attention layers with a score.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value.
"""

from __future__ import annotations

from typing import Any

from keras_attention.layers import scores
from keras_attention.layers.base.one_head_attention import OneHeadAttention
from keras_attention.ops.scores import check_widths

Tensor = Any


class ScoredAttention(OneHeadAttention):
    """Attention that compares queries and keys with a score.

    Abstract: a subclass defines `attend_from_state`.

    Args:
        score: a name, a config, or a `Score`; None if the subclass creates it in
            `build`.
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

    def precompute_key(self, key: Tensor) -> Any:
        return self.score.precompute_key(key)

    def check_widths(self, query: Tensor, value: Tensor, key: Tensor) -> None:
        if self.score is not None and not self.score.widths_may_differ:
            check_widths(query, key)
