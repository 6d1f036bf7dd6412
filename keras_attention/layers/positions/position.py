"""What every position of `MultiHeadAttention(position=…)` has in common.

Shapes: B batch, T queries, S keys, H heads, E width of a head, D width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import policy_config
from keras_attention.numerics import masks
from keras_attention.numerics.precision import wide

Tensor = Any


class Position(keras.layers.Layer):
    """What multi-head attention asks of a position; by default nothing changes.

    A subclass turns queries and keys (`rotate`), adds to the scores (`bias`), or both.
    Abstract.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build_for(self, heads: int, width: int) -> None:
        """Builds what belongs to so many heads, each of this width."""
        if not self.built:
            self.build((None, None, heads, width))

    def hold(self, name: str, built: int, wanted: int) -> None:
        """Refuses to serve an attention of another size than it was built for."""
        if built != wanted:
            raise ValueError(
                f"`position` is shared, and was built for {name}={built}: attention "
                f"of another size needs one of its own. Received: {name}={wanted}, "
                f"position={self.name!r}"
            )

    def rotate(self, x: Tensor, position: Tensor) -> Tensor:
        """Queries or keys (B, T, H, E) at positions (T,) or (B, T), turned."""
        return x

    def bias(self, query_position: Tensor, key_position: Tensor) -> Tensor | None:
        """What is added to the scores of queries at (T,) and keys at (S,): (H, T, S).

        Of positions (B, T) or (B, S), it is (B, H, T, S).
        """
        return None

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dtype": policy_config(self)}


class ScoreBias(Position):
    """A bias (H, T, S) that is added to the scores of each head. Abstract.

    Call arguments:
        scores: (B, H, T, S).

    Output shape:
        (B, H, T, S).
    """

    def build_for(self, heads: int, width: int) -> None:
        if not self.built:
            self.build((None, heads, None, None))
        self.hold("num_heads", self.heads, heads)

    def build(self, scores_shape: Any) -> None:
        if len(scores_shape) != 4:
            raise ValueError(
                "`scores` must have rank 4, (batch, heads, queries, keys). "
                f"Received: scores.shape={tuple(scores_shape)}"
            )
        self.heads = scores_shape[1]
        self.build_heads()
        self.built = True

    def build_heads(self) -> None:
        """Makes the weights of `self.heads` heads."""

    def call(self, scores: Tensor) -> Tensor:
        queries, keys = ops.shape(scores)[-2:]
        bias = self.bias(masks.places(queries), masks.places(keys))
        return ops.cast(wide(scores) + wide(bias), self.compute_dtype)

    def compute_output_spec(self, scores: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(scores.shape, self.compute_dtype)


def _distance(query_position: Tensor, key_position: Tensor) -> Tensor:
    """Where the key is, less where the query is: (T, S)."""
    return ops.expand_dims(key_position, -2) - ops.expand_dims(query_position, -1)
