"""The base classes of preprocessors whose assets are one vocabulary or two."""

from __future__ import annotations

import abc
import pathlib
from typing import Any, Self

from keras_attention.layers.base.arguments import positive
from keras_attention.models.base.preprocessor import Preprocessor
from keras_attention.presets.preprocessors import sentences
from keras_attention.text import Vocabulary

VOCABULARY = "vocabulary.txt"
SOURCE, TARGET = "source.txt", "target.txt"


class WordPreprocessor(Preprocessor, abc.ABC):
    """A preprocessor with one vocabulary of words, for texts of limited length.

    Args:
        vocabulary: a `text.Vocabulary` of words.
        max_words: the maximum number of words and marks of a text.

    Raises:
        ValueError: `max_words` is below 1, or `vocabulary` is not of that class.
    """

    def __init__(self, vocabulary: Vocabulary, max_words: int) -> None:
        self.vocabulary = sentences.check_vocabulary("vocabulary", vocabulary)
        self.max_words = positive("max_words", max_words)

    @property
    def model_sizes(self) -> dict[str, int]:
        return {"vocabulary_size": len(self.vocabulary)}

    def get_config(self) -> dict[str, Any]:
        return {"max_words": self.max_words}

    def save_assets(self, folder: pathlib.Path) -> None:
        self.vocabulary.save(folder / VOCABULARY)

    @classmethod
    def from_assets(cls, folder: pathlib.Path, config: dict[str, Any]) -> Self:
        return cls(Vocabulary.load(folder / VOCABULARY), **config)


class PairPreprocessor(Preprocessor, abc.ABC):
    """A preprocessor with a vocabulary to read and another one to write."""

    def __init__(
        self, source_vocabulary: Vocabulary, target_vocabulary: Vocabulary
    ) -> None:
        self.source_vocabulary = source_vocabulary
        self.target_vocabulary = target_vocabulary

    @property
    def model_sizes(self) -> dict[str, int]:
        return {
            "source_vocabulary_size": len(self.source_vocabulary),
            "target_vocabulary_size": len(self.target_vocabulary),
        }

    def save_assets(self, folder: pathlib.Path) -> None:
        self.source_vocabulary.save(folder / SOURCE)
        self.target_vocabulary.save(folder / TARGET)

    @classmethod
    def from_assets(cls, folder: pathlib.Path, config: dict[str, Any]) -> Self:
        source, target = (Vocabulary.load(folder / name) for name in (SOURCE, TARGET))
        return cls(source, target, **config)
