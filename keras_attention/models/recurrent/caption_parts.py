"""The layers of an `ImageCaptioner`, shared by its graph and its generation.

Shapes: B batch, S locations of an image, A width of a location, D width of a word, V
vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.attention.bahdanau_attention import BahdanauAttention
from keras_attention.models.recurrent.image_encoder import Places, image_encoder
from keras_attention.models.recurrent.token_decoder import (
    TokenDecoder,
    attention_rnn,
    word_embedding,
)

Tensor = Any


class CaptionParts:
    """Creates the layers of an `ImageCaptioner`; they belong to the model.

    Args:
        image_shape: the numbers of rows, columns and channels.
        vocabulary_size: V.
        embedding_dim: D.
        units: the units of the decoder.
        filters: the number of filters of each block of the encoder.
        cell: "lstm" or "gru".
        attention: "bahdanau" or an attention layer.
        order: "before" or "after", as in `AttentionRNN`.
        dropout: the dropout rate of the decoder's inputs and outputs.
        dtype: the dtype policy of all layers.
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
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

        self.encoder = image_encoder(image_shape, filters, dtype)
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
        rnn = attention_rnn(attention, cell, units, dtype, ("bahdanau",), order)
        self.decoder = TokenDecoder(words, rnn)
        self.dropout = keras.layers.Dropout(dropout, dtype=dtype, name="dropout")

    def encode(self, image: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Returns a (B, S, A), the mask of a (B, S), and the first state."""
        places, is_valid = self.places(self.encoder(image))
        count = ops.sum(ops.cast(is_valid, places.dtype), axis=1, keepdims=True)
        visible = ops.where(
            ops.expand_dims(is_valid, -1), places, ops.zeros_like(places)
        )
        average = ops.sum(visible, axis=1) / ops.maximum(count, 1)  # (B, A)
        return places, is_valid, [dense(average) for dense in self.start]

    def logits_of(self, words: Tensor, found: Tensor) -> Tensor:
        """Returns the logits (..., V) from words (..., D) and [s; z] (..., ·)."""
        return self.logits(ops.tanh(words + self.deep(self.dropout(found))))
