"""Sentences in words, for translators.

Shapes: B texts, S words of the longest text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.presets.preprocessors import sentences
from keras_attention.presets.preprocessors.vocabularies import PairPreprocessor
from keras_attention.text import Vocabulary


@export
class TranslationPreprocessor(PairPreprocessor):
    """Turns sentences into the inputs of a translator, and its words into sentences.

    For `Transformer` and `Seq2Seq`, whose input "source" is (B, S). Words that the
    vocabulary lacks become the unknown word.

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

    def encode(self, text: str | Sequence[str]) -> dict[str, np.ndarray]:
        """Returns the input "source" (B, S) int32, padded with 0.

        Args:
            text: a string, or a list of B strings.

        Raises:
            ValueError: a text has no words, more than `max_words`, or only unknown
                ones; or `text` is no string and no list of strings.
        """
        rows = [
            sentences.encode(name, line, self.source_vocabulary, self.max_words)
            for name, line in sentences.named("text", text).items()
        ]
        return {"source": sentences.pad(rows)}

    def decode(self, tokens: Any) -> list[str]:
        """Returns the sentences of tokens (B, T), each up to its end token."""
        words = [self.target_vocabulary.decode(row).split() for row in tokens]
        return [*map(sentences.text_of, words)]
