"""Texts that are read and written character by character.

Shapes: B texts, S characters of a source, T characters of a target.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keras_attention.datasets import dates
from keras_attention.layers.base.arguments import one_of, positive
from keras_attention.layers.base.serialization import export
from keras_attention.presets.preprocessors import sentences
from keras_attention.presets.preprocessors.running import flag
from keras_attention.presets.preprocessors.vocabularies import PairPreprocessor
from keras_attention.text.vocabulary import UNKNOWN, Vocabulary


@export
class CharacterPreprocessor(PairPreprocessor):
    """Turns texts into characters for a `Seq2Seq` or a `Transformer`, and back.

    Args:
        source_vocabulary: a `text.Vocabulary` of characters.
        target_vocabulary: the same for the written texts.
        source_length: S, the number of characters of the longest text in training.
        target_length: T, the number of characters of the longest written text in
            training, with the end token.
        writes: "text", or "date" for ISO 8601 dates. An `UntrainedInputWarning` then
            flags what is no date, or not that of the text.

    Raises:
        ValueError: a size is below 1, `writes` is unknown, or a vocabulary is not of
            that kind.
    """

    _level = "character"

    def __init__(
        self,
        source_vocabulary: Vocabulary,
        target_vocabulary: Vocabulary,
        source_length: int,
        target_length: int,
        writes: str = "text",
    ) -> None:
        super().__init__(source_vocabulary, target_vocabulary)
        self.source_length = positive("source_length", source_length)
        self.target_length = positive("target_length", target_length)
        self.writes = one_of("writes", writes, ("text", "date"))

    def encode(self, text: str | Sequence[str]) -> np.ndarray:
        """Returns the characters of texts as the source of the network, (B, S).

        White space at both ends of a text is left out.

        Args:
            text: a string, or a list of B strings.

        Raises:
            ValueError: there is no text, or a text is empty, is longer than S
                characters, or has characters that the vocabulary lacks.
        """
        texts = sentences.named("text", text)
        source = np.zeros((len(texts), self.source_length), "int32")
        for row, (name, line) in zip(source, texts.items()):
            tokens = self._tokens(name, line)
            row[: len(tokens)] = tokens
        return source

    def decode(self, tokens: np.ndarray) -> list[str]:
        """Returns the texts of tokens (B, T), each up to its end token."""
        return [self.target_vocabulary.decode(row) for row in np.asarray(tokens)]

    def check_answer(self, text: str, answer: str) -> None:
        if self.writes == "date":
            flag(*dates.mistakes(text, answer))

    def _tokens(self, name: str, text: str) -> list[int]:
        if not text.strip():
            raise ValueError(
                f"`{name}` must be a text with at least one character. "
                f"Received: {name}={text!r}"
            )
        text = text.strip()
        if len(text) > self.source_length:
            raise ValueError(
                f"`{name}` must have at most {self.source_length} characters. "
                f"Received: {len(text)} characters"
            )
        tokens = self.source_vocabulary.encode(text)
        if UNKNOWN in tokens:
            unknown = [
                c for c in dict.fromkeys(text) if c not in self.source_vocabulary
            ]
            raise ValueError(
                f"`{name}` must consist of characters that the network has learned; "
                "`model.preprocessor.source_vocabulary.tokens` lists them. "
                f"Received: {', '.join(map(repr, unknown))} in {name}={text!r}"
            )
        return tokens
