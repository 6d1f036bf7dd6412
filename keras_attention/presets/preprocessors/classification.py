"""Texts in words, for classifiers.

Shapes: B texts, T words of the longest text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.layers.base.serialization import export
from keras_attention.presets.preprocessors import sentences
from keras_attention.presets.preprocessors.running import probabilities, run
from keras_attention.presets.preprocessors.vocabularies import WordPreprocessor
from keras_attention.text import Vocabulary


@export
class ClassificationPreprocessor(WordPreprocessor):
    """Turns texts into the input of a `TransformerClassifier`, and scores into classes.

    Words that the vocabulary lacks become the unknown word.

    Args:
        vocabulary: a `text.Vocabulary` of words.
        classes: the name of each class.
        max_words: the maximum number of words and marks of a text.
        digits_as_zeros: whether each digit is read as 0, so that all telephone numbers
            of one length are one word.

    Raises:
        ValueError: `max_words` is below 1, `classes` are not at least two distinct
            strings, or `vocabulary` is not of that class.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        classes: Sequence[str],
        max_words: int,
        digits_as_zeros: bool = False,
    ) -> None:
        super().__init__(vocabulary, max_words)
        is_list = isinstance(classes, (list, tuple)) and len({*classes}) > 1
        if not is_list or len({*classes}) != len(classes):
            raise ValueError(
                "`classes` must be at least two distinct names. "
                f"Received: classes={classes!r}"
            )
        self.classes = tuple(classes)
        self.digits_as_zeros = bool(digits_as_zeros)

    def encode(self, texts: str | Sequence[str]) -> dict[str, np.ndarray]:
        """Returns the input "tokens" (B, T) int32, padded with 0.

        Args:
            texts: a string, or a list of B strings.

        Raises:
            ValueError: a text has no words, more than `max_words`, or only unknown
                ones; or `texts` is no string and no list of strings.
        """
        rows = []
        for name, text in sentences.named("texts", texts).items():
            text = self.read(text)
            rows.append(sentences.encode(name, text, self.vocabulary, self.max_words))
        return {"tokens": sentences.pad(rows)}

    def read(self, text: str) -> str:
        """Returns the text that is split into words."""
        return re.sub(r"\d", "0", text) if self.digits_as_zeros else text

    def classify(
        self, model: Any, texts: str | Sequence[str]
    ) -> tuple[str, float] | list[tuple[str, float]]:
        """Returns the likeliest class and its probability, or a list for each text."""
        shares = probabilities(run(model, self.encode(texts)))  # (B, C)
        classes = [(self.classes[row.argmax()], float(row.max())) for row in shares]
        return classes[0] if isinstance(texts, str) else classes

    @property
    def model_sizes(self) -> dict[str, int]:
        return {**super().model_sizes, "num_classes": len(self.classes)}
