"""The base classes of positions for `MultiHeadAttention(position=…)`.

Shapes: B batch, T queries, S keys, H heads, E width of a head, D width.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import check_shape
from keras_attention.layers.base.serialization import Configured
from keras_attention.numerics import masks
from keras_attention.numerics.precision import to_float32

Tensor = Any


class Position(Configured, keras.layers.Layer):
    """Abstract base class of the positions in multi-head attention.

    A subclass rotates queries and keys (`rotate`), adds a bias to the scores (`bias`),
    or both. The defaults change nothing.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build_for(self, heads: int, width: int) -> None:
        """Builds the layer for `heads` heads of width `width`."""
        if not self.built:
            self.build((None, None, heads, width))

    def check_same_size(self, name: str, built: int, wanted: int) -> None:
        """Raises a ValueError if the size `built` is not the size `wanted`."""
        if built != wanted:
            raise ValueError(
                f"`position` is shared, and was built for {name}={built}: give "
                f"attention of another size another one. Received: {name}={wanted}, "
                f"position={self.name!r}"
            )

    def rotate(self, x: Tensor, position: Tensor) -> Tensor:
        """Rotates queries or keys (B, T, H, E) at positions (T,) or (B, T)."""
        return x

    def bias(self, query_position: Tensor, key_position: Tensor) -> Tensor | None:
        """Returns the bias (H, T, S) for query positions (T,) and key positions (S,).

        With positions (B, T) or (B, S), the bias is (B, H, T, S).
        """
        return None


class ScoreBias(Position):
    """Abstract base class of positions that add a bias (H, T, S) to the scores.

    Call arguments:
        scores: (B, H, T, S).

    Output shape:
        (B, H, T, S).
    """

    input_ranks: ClassVar[Any] = {"scores": 4}

    def build_for(self, heads: int, width: int) -> None:
        if not self.built:
            self.build((None, heads, None, None))
        self.check_same_size("num_heads", self.heads, heads)

    def build(self, scores_shape: Any) -> None:
        form = "(batch, heads, queries, keys)"
        check_shape("scores", scores_shape, form, what="rank 4,")
        self.heads = scores_shape[1]
        self.build_heads()
        self.built = True

    def build_heads(self) -> None:
        """Creates the weights of `self.heads` heads."""

    def call(self, scores: Tensor) -> Tensor:
        if scores.shape[1] != self.heads:
            raise ValueError(
                f"`scores` must have {self.heads} heads (axis 1), for which layer "
                f"{self.name!r} was built. Received: scores.shape={tuple(scores.shape)}"
            )
        queries, keys = ops.shape(scores)[-2:]
        bias = self.bias(masks.positions(queries), masks.positions(keys))
        scores = to_float32(scores)
        return ops.cast(scores + ops.cast(bias, scores.dtype), self.compute_dtype)

    def compute_output_spec(self, scores: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(scores.shape, self.compute_dtype)


def _distance(query_position: Tensor, key_position: Tensor) -> Tensor:
    """Returns the key positions minus the query positions, (T, S)."""
    return ops.expand_dims(key_position, -2) - ops.expand_dims(query_position, -1)
