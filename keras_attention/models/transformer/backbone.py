"""The backbone of all Transformers: embedding, positions, blocks, final normalization.

Shapes: B batch, T tokens, S positions of a memory, D width, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.layers import positions
from keras_attention.layers.base.arguments import fraction
from keras_attention.layers.positions.position_embedding import PositionEmbedding
from keras_attention.layers.transformer.blocks import Block, copy_layer, norm_like

Tensor = Any


class TokenEmbedding:
    """The first and the last layers of a Transformer.

        xₜ      = dropout(√D E[yₜ] + pₜ)
        logitsₜ = E hₜ                       or E′ hₜ, if they are not tied

    This class is not a layer, so its layers belong directly to the model. They are
    `embedding`, `position`, `normalization` and `dropout`. `position` and
    `normalization` may be None.

    Args:
        vocabulary_size: V, including padding 0.
        dim: D, the width of the model.
        position: "sinusoidal", "learned", a layer, which is copied, or None.
        max_length: the number of learned positions.
        dropout: the dropout rate of the embedded inputs.
        scale: whether to multiply the embeddings by √D; by default, only with
            sinusoidal positions.
        stddev: the standard deviation of the initial embeddings; defaults to 1 / √D.
        tied: whether the output projection uses the embedding matrix.
        normalization: a layer that normalizes the embedded inputs, or None.
        dtype: the dtype policy of the layers created here.
        name: the name of the embedding, and the prefix of the other names.
    """

    def __init__(
        self,
        vocabulary_size: int,
        dim: int,
        position: Any = None,
        max_length: int = 1024,
        dropout: float = 0.0,
        scale: bool | None = None,
        stddev: float | None = None,
        tied: bool = True,
        normalization: Any = None,
        dtype: Any = None,
        name: str = "token_embedding",
    ) -> None:
        scale = position == "sinusoidal" if scale is None else scale
        self.scale = dim**0.5 if scale else None
        self.embedding: Any = keras.layers.ReversibleEmbedding(
            vocabulary_size,
            dim,
            tie_weights=tied,
            # Otherwise the logits would have the dtype of the weights.
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
        """Embeds tokens (B, T) at the positions from `start` on. Returns (B, T, D)."""
        x = self.embedding(tokens)
        if self.scale is not None:
            x = x * self.scale
        if self.position is not None:
            x = x + self.position(x, start=start)
        if self.normalization is not None:
            x = self.normalization(x)
        return self.dropout(x)

    def step(self, token: Tensor, index: Any) -> Tensor:
        """Embeds one token per row, (B,), at position `index`. Returns (B, D)."""
        return self(token[:, None], start=index)[:, 0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the logits (..., V) of hidden states (..., D)."""
        return self.embedding(hidden, reverse=True)


class Backbone:
    """The layers that a Transformer has below its head.

        x₀ = embedding(tokens)
        xₗ = block(xₗ₋₁)
        h  = norm(x_L)                       with `norm_first`, else x_L

    With encoder blocks, it is an encoder, or a language model if each call is causal.
    With decoder blocks, it is a decoder, whose calls take a memory. A model uses it in
    its graph and in its generation. It is not a layer, so its layers belong directly to
    the model. Without the name of a `norm`, the head normalizes.
    """

    def __init__(
        self, embedding: TokenEmbedding, blocks: list[Any], norm: str | None = None
    ) -> None:
        self.embedding = embedding
        self.blocks = blocks
        last: Block = blocks[-1]
        self.norm: Any = norm_like(last, norm) if norm and last.norm_first else None

    def __call__(self, tokens: Tensor, *memory: Tensor, **options: Any) -> Tensor:
        """Returns the hidden states (B, T, D) of tokens; a memory is (B, S, D)."""
        x = self.embedding(tokens)  # (B, T, D)
        for block in self.blocks:
            x = block(x, *memory, **options)
        return self._normalize(x)

    def step(
        self,
        token: Tensor,
        position: Any,
        caches: list[Any],
        index: Any,
        memories: list[Any] | None = None,
    ) -> tuple[Tensor, list[Any]]:
        """Returns the hidden states (B, D) of one token per row, and the new caches.

        The position of the token in its sequence, a number or (B,), may differ from the
        index where it is written to the caches. Decoder blocks get the memory that each
        prepared.
        """
        x, updated = self.embedding.step(token, position), []
        prepared = [()] * len(caches) if memories is None else [(m,) for m in memories]
        for block, cache, memory in zip(self.blocks, caches, prepared):
            x, cache = block.step(x, cache, index, *memory)
            updated.append(cache)
        return self._normalize(x), updated

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the logits (..., V) of hidden states (..., D)."""
        return self.embedding.logits(hidden)

    @property
    def positions(self) -> int | None:
        """The number of learned positions; None if the length is unlimited."""
        return getattr(self.embedding.position, "max_length", None)

    def _normalize(self, x: Tensor) -> Tensor:
        return x if self.norm is None else self.norm(x)
