"""R of a memory network: scores the words that may answer.

Shapes: B batch, M memory slots, D width, K hops, V words of the vocabulary. "·" is the
number of features of a sentence or of fields of a record.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import natural, positive
from keras_attention.layers.base.checked import check_ids, is_checkable
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.layers.memory_networks.memnn_parts import (
    bag,
    block,
    context_vectors,
    found_blocks,
    hidden_layer,
    is_number,
    match_blocks,
    new_vectors,
    sentences,
)
from keras_attention.ops import ranking

Tensor = Any


@export
class WordResponder(Configured, keras.layers.Layer):
    """R, the response: scores each word against the question and the found facts.

        s_R(x, w) = Φx(x)ᵀ U_Rᵀ U_R Φy(w),  x = [question, m_o₁, m_o₂, …]

    U_R consists of blocks, like U_O in `FactFinder`. With `exact_match=True`, Φy(w)
    also has matching features, which tell that w is in the question or in a found fact.
    New words follow the V known words. Their neighbours in the story represent them, so
    a word that was never an answer in training may be the answer.

    Args:
        features: the number of different features, including padding (0).
        vocabulary_size: V, the number of words that may be answers.
        embedding_dim: D, the width of the embeddings.
        supports: K, the largest number of found facts.
        nonlinear: whether to embed x with two layers, tanh(W tanh(U_R Φ) + b).
        hop_versions: whether found facts have separate embeddings for each hop.
        new_words: N, the number of new words; their ids start at `features`.
        exact_match: whether to use matching features.

    Call arguments:
        question: integers (B, ·), features.
        memory: int32 (B, M, 1 + ·), records written by `MemoryWriter`.
        found: integers (B, K), slots of found facts; −1 for none.
        contexts: int32 (B, M, L, 3), the neighbours of new words, from `WordContexts`.
            Required if there are new words.

    Returns:
        The scores s_R (B, V + N). A new word that does not occur in the story has half
        the lowest finite number.

    Raises:
        ValueError: if a size is below 1, or `contexts` is missing.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import WordResponder
    >>> responder = WordResponder(features=9, vocabulary_size=5, embedding_dim=4)
    >>> question, memory = np.array([[3, 1]]), np.array([[[1, 3, 2], [2, 4, 1]]])
    >>> tuple(responder(question, memory, np.array([[1, -1]])).shape)
    (1, 5)

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.1; new words and
        matching features: sections 3.5 and 3.6.
    """

    id_sizes: ClassVar[Any] = {"question": "num_ids"}
    input_ranks: ClassVar[Any] = {"question": 2, "memory": 3, "found": 2, "contexts": 4}

    def __init__(
        self,
        features: int,
        vocabulary_size: int,
        embedding_dim: int,
        supports: int = 2,
        nonlinear: bool = False,
        hop_versions: bool = False,
        new_words: int = 0,
        exact_match: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.features = positive("features", features)
        self.vocabulary_size = positive("vocabulary_size", vocabulary_size)
        self.embedding_dim = positive("embedding_dim", embedding_dim)
        self.supports = positive("supports", supports)
        self.nonlinear = nonlinear
        self.hop_versions = hop_versions
        self.new_words = natural("new_words", new_words)
        self.exact_match = exact_match
        self.question = block(self, "question")
        self.found = found_blocks(self, supports)
        self.map = hidden_layer(self) if nonlinear else None
        self.words = block(self, "words", vocabulary_size)
        self.matches = match_blocks(self, 1 + len(self.found), vocabulary_size)
        parts = (self.question, *self.found, self.words, *self.matches)
        self.contexts = context_vectors(self, [part.name for part in parts])

    @property
    def num_ids(self) -> int:
        """The number of different features, those of new words included."""
        return self.features + self.new_words

    def check_given(self, given: dict[str, Any]) -> None:
        super().check_given(given)
        memory, found = given.get("memory"), given.get("found")
        if memory is not None and is_checkable(memory):
            check_ids("memory", memory[:, :, 1:], self.num_ids)
        if is_checkable(found) and memory is not None:
            check_ids("found", found, memory.shape[1], least=-1)

    def build(
        self,
        question_shape: Any,
        memory_shape: Any = None,
        found_shape: Any = None,
        contexts_shape: Any = None,
    ) -> None:
        for part in (self.question, *self.found, self.words, *self.matches):
            part.build(None)
        if self.map is not None:
            self.map.build((None, self.embedding_dim))
        if self.contexts is not None:
            self.contexts.build(contexts_shape)
        self.built = True

    def call(
        self,
        question: Tensor,
        memory: Tensor,
        found: Tensor,
        contexts: Tensor | None = None,
    ) -> Tensor:
        vectors = new_vectors(self, contexts)
        facts = sentences(memory, ops.maximum(found, 0))  # (B, K, ·)
        facts = ops.where(ops.expand_dims(found, 2) >= 0, facts, 0)
        state = bag(self.question, question, vectors.get("question"))  # (B, D)
        if self.hop_versions:
            texts = [facts[:, hop] for hop in range(self.supports)]
            for part, text in zip(self.found, texts):
                state = state + bag(part, text, vectors.get(part.name))
        else:
            each = bag(self.found[0], facts, vectors.get("found_0"))  # (B, K, D)
            state = state + ops.sum(each, axis=1)
            texts = []  # of the facts; only matches and new words need them
            if self.matches or contexts is not None:
                texts = [ops.concatenate(ops.unstack(facts, self.supports, 1), axis=1)]
        if self.map is not None:
            state = self.map(ops.tanh(state))
        scores = self.words(state, reverse=True)  # (B, V)
        texts = [ops.cast(question, "int32"), *texts]
        for part, text in zip(self.matches, texts):
            occurs = contains(text, self.vocabulary_size)  # (B, V)
            matched = part(state, reverse=True)
            scores = scores + ops.cast(occurs, matched.dtype) * matched
        if contexts is None:
            return scores
        return ops.concatenate(
            [scores, self._of_new_words(state, texts, contexts, vectors)], axis=1
        )

    def compute_output_spec(self, question: Tensor, *args: Any, **kwargs: Any) -> Any:
        shape = (question.shape[0], self.vocabulary_size + self.new_words)
        return keras.KerasTensor(shape, self.compute_dtype)

    def _of_new_words(
        self,
        state: Tensor,
        texts: list[Tensor],
        contexts: Tensor,
        vectors: dict[str, Tensor],
    ) -> Tensor:
        """Returns the scores (B, N) of the new words."""
        words = vectors["words"]  # (B, N, D)
        for part, text in zip(self.matches, texts):
            occurs = ops.any(is_number(text - self.features, self.new_words), axis=1)
            occurs = ops.expand_dims(ops.cast(occurs, words.dtype), -1)
            words = words + occurs * vectors[part.name]
        scores = ops.matmul(words, ops.expand_dims(state, 2))[:, :, 0]  # (B, N)
        number = contexts[..., 0] - 1  # (B, M, L)
        # One axis at a time: Keras 3.12 on torch reduces the wrong ones of two.
        named = ops.any(is_number(number, self.new_words), axis=1)  # (B, L, N)
        return ranking.hide(scores, ops.any(named, axis=1))


def contains(features: Tensor, size: int) -> Tensor:
    """Returns which of 1 … size − 1 are in (B, ·): booleans (B, size); 0 is False."""
    is_word = ops.expand_dims(features, -1) != 0
    return ops.any(ops.logical_and(is_number(features, size), is_word), axis=1)
