"""Encodes a sentence as the sum of its word embeddings.

Shapes: B batch, M memory slots, L words, D width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import one_of, positive
from keras_attention.layers.base.checked import check_ids
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics import masks
from keras_attention.ops import positions

Tensor = Any


ENCODINGS = ("bag", *positions.ENCODINGS, "learned")
LEARNED = 32  # words with a mask of their own, unless `sentence_length` says more


@export
class SentenceEncoder(Configured, keras.layers.Layer):
    """Encodes a sentence as a plain or position-weighted sum of its word embeddings.

        bag       m = Σⱼ A xⱼ
        position  m = Σⱼ lⱼ ∘ A xⱼ,  l_kj = (1 − j/J) − (k/d)(1 − 2j/J)
        centered_position            l_kj = 1 + 4(k − (d + 1)/2)(j − (J + 1)/2)/(dJ)
        learned                      l_kj is a weight, 1 at first

    Token 0 is padding and contributes nothing.

    Args:
        vocabulary_size: V, the number of different tokens, including padding.
        embedding_dim: d, the width of an embedding.
        encoding: "bag"; "position" as in the paper; "centered_position" as in the
            authors' code, with weights about twice as large; or "learned", the
            multiplicative mask of a recurrent entity network.
        sentence_length: J of the position encoding: one integer for all sentences, or
            None to use the number of words of each sentence, as in the paper. With
            "learned", the number of positions that have a mask, 32 for None; later
            words share the last mask.
        embeddings_initializer: the initializer of A. Defaults to a normal distribution
            with standard deviation 0.1.

    Call arguments:
        inputs: integers (..., L), or vectors (..., d) with `reverse=True`.
        reverse: whether to score every word of the vocabulary against a vector, Aᵀu,
            instead of encoding words.

    Returns:
        The sentences (..., d), or the scores (..., V) with `reverse=True`.

    Masking:
        Sentences (B, M, L) produce a mask (B, M), False for sentences without words.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import SentenceEncoder
    >>> story = np.array([[[1, 2, 3], [4, 0, 0], [0, 0, 0]]])
    >>> tuple(SentenceEncoder(vocabulary_size=5, embedding_dim=2)(story).shape)
    (1, 3, 2)

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1; learned:
        Henaff et al., "Tracking the world state with recurrent entity networks" (2017),
        equation 1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        encoding: str = "position",
        sentence_length: int | None = None,
        embeddings_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = positive("vocabulary_size", vocabulary_size)
        self.embedding_dim = positive("embedding_dim", embedding_dim)
        self.encoding = one_of("encoding", encoding, ENCODINGS)
        if sentence_length is not None:
            sentence_length = positive("sentence_length", sentence_length)
        self.sentence_length = sentence_length
        self.embedding = keras.layers.ReversibleEmbedding(
            vocabulary_size,
            embedding_dim,
            embeddings_initializer=embeddings_initializer or normal(),
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.embeddings_initializer = self.embedding.embeddings_initializer
        self.word_mask: Any = None
        if encoding == "learned":
            self.word_mask = keras.layers.Embedding(
                sentence_length or LEARNED,
                embedding_dim,
                embeddings_initializer="ones",
                dtype=self.dtype_policy,
                name="word_mask",
            )
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        self.embedding.build(input_shape)
        if self.word_mask is not None:
            self.word_mask.build()
        self.built = True

    def call(
        self, inputs: Tensor, reverse: bool = False, training: bool | None = None
    ) -> Tensor:
        if reverse:
            # Keras multiplies in the dtype of the table, not in the compute dtype.
            logits = self.embedding(inputs, reverse=True)
            return ops.cast(logits, self.compute_dtype)  # (..., V)
        check_ids("inputs", inputs, self.vocabulary_size)
        if training and self._sums_pay(inputs):
            table = ops.cast(self.embedding.embeddings, self.compute_dtype)
            word, words = self._places(masks.padding(inputs))
            return positions.position_weighted_sum(
                word, words, inputs, table, self.encoding
            )
        words = self.embedding(inputs)  # (..., L, D)
        is_valid = masks.padding(inputs)  # (..., L)
        weights = ops.expand_dims(ops.cast(is_valid, words.dtype), -1)
        if self.word_mask is not None:
            word = ops.clip(self._places(is_valid)[0], 1, self.word_mask.input_dim)
            weights = weights * self.word_mask(word - 1)
        elif self.encoding != "bag":
            l_kj = positions.sentence_position(
                *self._places(is_valid), words.shape[-1], self.encoding
            )
            weights = weights * ops.cast(l_kj, words.dtype)
        return ops.sum(weights * words, axis=-2)  # (..., D)

    def compute_output_spec(
        self, inputs: Tensor, reverse: bool = False, training: bool | None = None
    ) -> keras.KerasTensor:
        width = self.vocabulary_size if reverse else self.embedding_dim
        return keras.KerasTensor((*inputs.shape[:-1], width), self.compute_dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        if len(inputs.shape) != 3 or not keras.backend.is_int_dtype(inputs.dtype):
            return None
        return ops.any(masks.padding(inputs), axis=-1)  # (B, M)

    def _sums_pay(self, inputs: Tensor) -> bool:
        """Whether training without lookups is faster; see tests/speed/trials.md."""
        return (
            self.encoding in positions.ENCODINGS
            and kernels.word_sums_pay(self.vocabulary_size, inputs.shape[-1])
            and not self.embedding.quantization_mode
        )

    def _places(self, is_valid: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the position j of each word (0 for padding) and the length J."""
        is_valid = ops.cast(is_valid, "int32")
        word = ops.cumsum(is_valid, axis=-1) * is_valid  # (..., L)
        if self.sentence_length is not None:
            return word, self.sentence_length
        words = ops.sum(is_valid, axis=-1, keepdims=True)  # (..., 1)
        return word, ops.maximum(words, 1)


def normal() -> keras.initializers.Initializer:
    """Returns the default initializer: normal with standard deviation 0.1."""
    return keras.initializers.RandomNormal(stddev=0.1)
