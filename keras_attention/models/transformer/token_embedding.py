"""The two ends of a Transformer: tokens to vectors, and vectors to logits.

Shapes: B batch, T tokens, D width, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.layers import positions
from keras_attention.layers.base.arguments import fraction
from keras_attention.layers.positions.position_embedding import PositionEmbedding
from keras_attention.layers.transformer.attentions import copy_layer

Tensor = Any


class TokenEmbedding:
    """The layers with which a Transformer begins and ends; its graph shares them.

        xₜ      = dropout(√D E[yₜ] + pₜ)
        logitsₜ = E hₜ                       or E′ hₜ, where they are not tied

    This is no layer, so that a model's layers stay its own: they are `embedding`,
    `position`, `normalization` and `dropout`, of which the middle two may be None.

    Args:
        vocabulary_size: V, padding 0 included.
        dim: D.
        position: "sinusoidal", "learned", or a layer that is called as
            `SinePositionEncoding` is, of which a copy is made; None where each
            attention has its own.
        max_length: how many positions are learned.
        dropout: of what is embedded.
        scale: whether embeddings are multiplied by √D.
        stddev: with which they are drawn; by default 1 / √D.
        tied: whether logits are products with the embeddings themselves.
        normalization: a layer for what is embedded, or None.
        dtype: of the layers that are made here.
        name: of the embedding; in front of the other names.
    """

    def __init__(
        self,
        vocabulary_size: int,
        dim: int,
        position: Any = None,
        max_length: int = 1024,
        dropout: float = 0.0,
        scale: bool = True,
        stddev: float | None = None,
        tied: bool = True,
        normalization: Any = None,
        dtype: Any = None,
        name: str = "token_embedding",
    ) -> None:
        self.scale = dim**0.5 if scale else None
        self.embedding: Any = keras.layers.ReversibleEmbedding(
            vocabulary_size,
            dim,
            tie_weights=tied,
            # Without it, logits would be in the dtype of the weights.
            reverse_dtype=keras.dtype_policies.get(dtype).compute_dtype,
            embeddings_initializer=keras.initializers.RandomNormal(
                stddev=dim**-0.5 if stddev is None else stddev
            ),
            dtype=dtype,
            name=name,
        )
        self.position: Any = position
        if position == "sinusoidal":
            self.position = positions.SinePositionEncoding(
                dtype=dtype, name=f"{name}_position"
            )
        elif position == "learned":
            self.position = PositionEmbedding(
                max_length, dtype=dtype, name=f"{name}_position"
            )
        elif position is not None:
            self.position = copy_layer(position, f"{name}_position")
        self.normalization: Any = normalization
        self.dropout = keras.layers.Dropout(
            fraction("dropout", dropout), dtype=dtype, name=f"{name}_dropout"
        )

    def __call__(self, tokens: Tensor, start: Any = 0) -> Tensor:
        """Tokens (B, T), the first at position `start`, as vectors (B, T, D)."""
        x = self.embedding(tokens)
        if self.scale is not None:
            x = x * self.scale
        if self.position is not None:
            x = x + self.position(x, start=start)
        if self.normalization is not None:
            x = self.normalization(x)
        return self.dropout(x)

    def step(self, token: Tensor, index: Any) -> Tensor:
        """One token of each row, (B,), at a position: (B, D)."""
        return self(token[:, None], start=index)[:, 0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (..., V) of hidden states (..., D)."""
        return self.embedding(hidden, reverse=True)
