"""The layers of an `ImageCaptioner`, shared by its graph and its generation.

Shapes: B batch, S locations of an image, A width of a location, D width of a word, V
vocabulary, T words of a caption, H heads.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.attention.bahdanau_attention import BahdanauAttention
from keras_attention.layers.attention.carry_choices import CarryChoices
from keras_attention.layers.base.adapter import as_attention
from keras_attention.models.recurrent.image_encoder import Places, image_encoder
from keras_attention.models.recurrent.token_decoder import (
    TokenDecoder,
    attention_rnn,
    average_heads,
    word_embedding,
)

Tensor = Any


class CaptionParts:
    """Creates the layers of an `ImageCaptioner`; they belong to the model."""

    def __init__(
        self,
        encoder: Any,
        image_shape: tuple,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        filters: tuple[int, ...],
        cell: str,
        attention: Any,
        order: str,
        dropout: float,
        dtype: Any,
    ) -> None:
        def dense(width: int, activation: Any, name: str) -> Any:
            return keras.layers.Dense(width, activation, dtype=dtype, name=name)

        is_own = encoder == "cnn"
        self.encoder = image_encoder(image_shape, filters, dtype) if is_own else encoder
        self.places = Places(dtype=dtype, name="places")
        self.start = [dense(units, "tanh", "start")]
        if cell == "lstm":
            self.start.append(dense(units, None, "start_cell"))
        words = word_embedding(vocabulary_size, embedding_dim, "words", dtype)
        self.deep = dense(embedding_dim, None, "deep")
        self.logits = dense(vocabulary_size, None, "logits")
        # `attention_rnn` would create it after the cell: a seed would then give other
        # initial weights than in earlier versions.
        if attention == "bahdanau":
            attention = BahdanauAttention(units, dtype=dtype, name="attention")
        rnn = attention_rnn(attention, cell, units, dtype, ("bahdanau",), order, True)
        self.decoder = TokenDecoder(words, rnn)
        self.carry = None  # of an attention layer that learns by its weights
        protocol = as_attention(rnn.attention)
        if protocol.learns_by_weights:
            # After the cell, a choice affects its own logits alone.
            is_stateless = not protocol.state_shapes((1, 1))
            credit = "own" if order == "after" and is_stateless else "later"
            self.carry = CarryChoices(credit, dtype=dtype, name="choices")
        self.dropout = keras.layers.Dropout(dropout, dtype=dtype, name="dropout")

    def encode(self, features: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Returns a (B, S, A), the mask of a (B, S), and the first state."""
        places, is_valid = self.places(features)
        count = ops.sum(ops.cast(is_valid, places.dtype), axis=1, keepdims=True)
        visible = ops.where(
            ops.expand_dims(is_valid, -1), places, ops.zeros_like(places)
        )
        average = ops.sum(visible, axis=1) / ops.maximum(count, 1)  # (B, A)
        return places, is_valid, [dense(average) for dense in self.start]

    def features_of(self, image: Tensor) -> Tensor:
        """Returns the features; without an encoder, the input itself."""
        return image if self.encoder is None else self.encoder(image)

    def logits_of(self, words: Tensor, outputs: Tensor) -> Tensor:
        """Returns the logits (..., V) from words (..., D) and [s; z] (..., ·)."""
        return self.logits(ops.tanh(words + self.deep(self.dropout(outputs))))


class DoublyStochastic(keras.layers.Layer):
    """Adds λ Σᵢ (1 − Σₜ αₜᵢ)² to the loss (equation 14).

    Args:
        weight: λ, the weight of the penalty.

    Call arguments:
        outputs: a tensor that the layer returns unchanged.
        weights: α, (B, T, S) or (B, H, T, S).
        target: integers (B, T), 0 is padding.
        mask: booleans (B, S), True for locations that are not blank.
    """

    def __init__(self, weight: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.weight = weight

    def call(
        self, outputs: Tensor, weights: Tensor, target: Tensor, mask: Tensor
    ) -> Tensor:
        weights = average_heads(ops.cast(weights, "float32"), 3)  # (B, T, S)
        written = ops.cast(ops.not_equal(target, 0), "float32")[..., None]  # (B, T, 1)
        attended = ops.sum(weights * written, axis=1)  # (B, S)
        lacking = ops.where(mask, (1.0 - attended) ** 2, ops.zeros_like(attended))
        self.add_loss(self.weight * ops.mean(ops.sum(lacking, axis=1)))
        return outputs

    def compute_output_spec(self, outputs: Any, *others: Any) -> Any:
        return keras.KerasTensor(outputs.shape, self.compute_dtype)
