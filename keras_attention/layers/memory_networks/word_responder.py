"""R of a memory network: scores the words that may answer.

Shapes: B batch, M memory slots, D width, K hops, V words of the vocabulary. "·" is the
number of features of a sentence or of fields of a record.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.checked import check_ids, is_checkable
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.layers.memory_networks.memnn_parts import (
    block,
    found_blocks,
    hidden_layer,
    sentences,
)
from keras_attention.layers.memory_networks.sentence_encoder import (
    SentenceEncoder,
)

Tensor = Any


@export
class WordResponder(Configured, keras.layers.Layer):
    """R, the response: scores each word against the question and the found facts.

        s_R(x, w) = Φx(x)ᵀ U_Rᵀ U_R Φy(w),  x = [question, m_o₁, m_o₂, …]

    U_R consists of blocks, like U_O in `FactFinder`.

    Args:
        features: the number of different features, including padding (0).
        vocabulary_size: V, the number of words that may be answers.
        embedding_dim: D, the width of the embeddings.
        supports: K, the largest number of found facts.
        nonlinear: whether to embed x with two layers, tanh(W tanh(U_R Φ) + b).
        hop_versions: whether found facts have separate embeddings for each hop.

    Call arguments:
        question: integers (B, ·), features.
        memory: int32 (B, M, 1 + ·), records written by `MemoryWriter`.
        found: integers (B, K), slots of found facts; −1 for none.

    Returns:
        The scores s_R (B, V).

    Raises:
        ValueError: if a size is below 1.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import WordResponder
    >>> responder = WordResponder(features=9, vocabulary_size=5, embedding_dim=4)
    >>> question, memory = np.array([[3, 1]]), np.array([[[1, 3, 2], [2, 4, 1]]])
    >>> tuple(responder(question, memory, np.array([[1, -1]])).shape)
    (1, 5)

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.1.
    """

    id_sizes: ClassVar[Any] = {"question": "features"}
    input_ranks: ClassVar[Any] = {"question": 2, "memory": 3, "found": 2}

    def __init__(
        self,
        features: int,
        vocabulary_size: int,
        embedding_dim: int,
        supports: int = 2,
        nonlinear: bool = False,
        hop_versions: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.features = positive("features", features)
        self.vocabulary_size = positive("vocabulary_size", vocabulary_size)
        self.embedding_dim = positive("embedding_dim", embedding_dim)
        self.supports = positive("supports", supports)
        self.nonlinear = nonlinear
        self.hop_versions = hop_versions
        self.question = block(self, "question")
        self.found = found_blocks(self, supports)
        self.map = hidden_layer(self) if nonlinear else None
        self.words = SentenceEncoder(
            vocabulary_size, embedding_dim, "bag", dtype=self.dtype_policy, name="words"
        )

    def check_given(self, given: dict[str, Any]) -> None:
        super().check_given(given)
        memory, found = given.get("memory"), given.get("found")
        if memory is not None and is_checkable(memory):
            check_ids("memory", memory[:, :, 1:], self.features)
        if is_checkable(found) and memory is not None:
            check_ids("found", found, memory.shape[1], least=-1)

    def build(
        self, question_shape: Any, memory_shape: Any = None, found_shape: Any = None
    ) -> None:
        for part in (self.question, *self.found, self.words):
            part.build(None)
        if self.map is not None:
            self.map.build((None, self.embedding_dim))
        self.built = True

    def call(self, question: Tensor, memory: Tensor, found: Tensor) -> Tensor:
        facts = sentences(memory, ops.maximum(found, 0))  # (B, K, ·)
        facts = ops.where(ops.expand_dims(found, 2) >= 0, facts, 0)
        state = self.question(question)  # (B, D)
        if self.hop_versions:
            for hop, version in enumerate(self.found):
                state = state + version(facts[:, hop])
        else:
            state = state + ops.sum(self.found[0](facts), axis=1)
        if self.map is not None:
            state = self.map(ops.tanh(state))
        return self.words(state, reverse=True)  # (B, V)

    def compute_output_spec(
        self, question: Tensor, memory: Tensor, found: Tensor
    ) -> keras.KerasTensor:
        shape = (question.shape[0], self.vocabulary_size)
        return keras.KerasTensor(shape, self.compute_dtype)
