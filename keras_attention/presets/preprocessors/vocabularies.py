"""The base classes of preprocessors whose assets are one vocabulary or two."""

from __future__ import annotations

from typing import Any, ClassVar

from keras_attention.layers.base.arguments import positive
from keras_attention.models.base.preset_folder import Preprocessor
from keras_attention.presets.preprocessors import sentences
from keras_attention.text import Vocabulary

VOCABULARY: dict[str, tuple[str, Any, Any]] = {
    "vocabulary": ("vocabulary.txt", Vocabulary.load, Vocabulary.save)
}


class WordPreprocessor(Preprocessor):
    """A preprocessor with one vocabulary of words, for texts of at most `max_words`."""

    _assets = VOCABULARY

    def __init__(self, vocabulary: Vocabulary, max_words: int) -> None:
        self.vocabulary = sentences.check_vocabulary("vocabulary", vocabulary)
        self.max_words = positive("max_words", max_words)


class PairPreprocessor(Preprocessor):
    """A preprocessor with a vocabulary to read and another one to write."""

    _level = "word"
    _assets: ClassVar[dict[str, tuple[str, Any, Any]]] = {
        "source_vocabulary": ("source.txt", Vocabulary.load, Vocabulary.save),
        "target_vocabulary": ("target.txt", Vocabulary.load, Vocabulary.save),
    }

    def __init__(
        self, source_vocabulary: Vocabulary, target_vocabulary: Vocabulary
    ) -> None:
        check = sentences.check_vocabulary
        self.source_vocabulary = check(
            "source_vocabulary", source_vocabulary, self._level
        )
        self.target_vocabulary = check(
            "target_vocabulary", target_vocabulary, self._level
        )
