"""Sentences in words, for translators.

Shapes: B texts, S words of the longest text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.datasets.translation.vectors import shared_vocabulary
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.presets.preprocessors import sentences
from keras_attention.presets.preprocessors.vocabularies import PairPreprocessor
from keras_attention.text import Vocabulary


@export
class TranslationPreprocessor(PairPreprocessor):
    """Turns sentences into the inputs of a translator, and its words into sentences.

    For `Transformer` and `Seq2Seq`, whose input "source" is (B, S). Words that the
    vocabulary lacks become the unknown word. `Seq2Seq(copy=…)` can copy them if both
    vocabularies are the same.

    Args:
        source_vocabulary: a `text.Vocabulary` of words to translate
            from.
        target_vocabulary: such a vocabulary of words to translate to.
        max_words: the maximum number of words and marks of a text, such as that of the
            training data.

    Raises:
        ValueError: `max_words` is below 1, or a vocabulary is not of that class.
    """

    def __init__(
        self,
        source_vocabulary: Vocabulary,
        target_vocabulary: Vocabulary,
        max_words: int,
    ) -> None:
        super().__init__(source_vocabulary, target_vocabulary)
        self.max_words = positive("max_words", max_words)

    def encode(self, text: Sequence[str], extra_ids: int = 0) -> dict[str, np.ndarray]:
        """Returns the input "source" (B, S) int32, padded with 0.

        Args:
            text: a string, or a list of B strings.
            extra_ids: the model's `extra_ids`, for unknown words of a text.

        Raises:
            ValueError: a text has no words, more than `max_words`, or, without
                `extra_ids`, only unknown ones; `text` is no string and no list of
                strings; or there are `extra_ids` and two different vocabularies.
        """
        rows = []
        for name, line in sentences.named("text", text).items():
            vocabulary, _ = self._extended(line, extra_ids)
            rows.append(sentences.encode(name, line, vocabulary, self.max_words))
        return {"source": sentences.pad(rows)}

    def decode(self, tokens: Any, text: Any = None, extra_ids: int = 0) -> list[str]:
        """Returns the sentences of tokens (B, T), each up to its end token.

        With `extra_ids`, `text` and `extra_ids` are those of `encode`.
        """
        lines = [""] * len(tokens)
        if extra_ids:
            lines = [*sentences.named("text", text).values()]
        return [
            sentences.text_of(self._extended(line, extra_ids)[1].decode(row).split())
            for line, row in zip(lines, tokens)
        ]

    def _extended(self, text: str, extra_ids: int) -> tuple[Vocabulary, Vocabulary]:
        """Returns the vocabularies to read and to write, with a text's own words."""
        if not extra_ids:
            return self.source_vocabulary, self.target_vocabulary
        both = shared_vocabulary(self.source_vocabulary, self.target_vocabulary)
        extended = both.extended(sentences.words_of(text, both), extra_ids)
        return extended, extended
