"""Sentences with a blank, for masked language models.

Shapes: T tokens of a text, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.presets.preprocessors import sentences
from keras_attention.presets.preprocessors.running import probabilities, run
from keras_attention.presets.preprocessors.vocabularies import WordPreprocessor
from keras_attention.text.vocabulary import END, START

BLANK = "___"


@export
class BlankPreprocessor(WordPreprocessor):
    """Turns a text with a blank into the inputs of a `MaskedLM`.

    The tokens are the start token, the words, and the end token. The mask token has the
    index after the last word, as in `text.TokenMasking`. Words that the vocabulary
    lacks become the unknown word.

    Args:
        vocabulary: a `text.Vocabulary` of words. The model has one token
            more.
        max_words: the maximum number of words and marks of a text.

    Raises:
        ValueError: `max_words` is below 1, or `vocabulary` is not of that class.
    """

    @property
    def mask_token_id(self) -> int:
        """The index of the mask token."""
        return len(self.vocabulary)

    def encode(self, text: str) -> dict[str, np.ndarray]:
        """Returns the inputs "tokens" (1, T) and "mask_positions" (1, 1), int32.

        Args:
            text: a text in which `___` stands for one missing word.

        Raises:
            ValueError: the text has not exactly one blank, no other word that is known,
                or more words and marks than `max_words`.
        """
        if not isinstance(text, str):
            raise ValueError(f"`text` must be a string. Received: text={text!r}")
        words = sentences.words_of(text, self.vocabulary)
        blanks = [place for place, word in enumerate(words) if word == BLANK]
        if len(blanks) != 1:
            raise ValueError(
                f"`text` must have one blank, {BLANK}, between spaces or marks. "
                f"Received: text={text!r}"
            )
        row = sentences.encode("text", text, self.vocabulary, self.max_words, BLANK)
        row[blanks[0]] = self.mask_token_id
        tokens = np.array([[START, *row, END]], np.int32)
        return {
            "tokens": tokens,
            "mask_positions": np.array([[1 + blanks[0]]], "int32"),
        }

    def fill(self, model: Any, text: str, count: int = 5) -> list[tuple[str, float]]:
        """Returns the likeliest words for the blank, with their probabilities."""
        positive("count", count)
        chances = probabilities(run(model, self.encode(text))[0, 0])  # (V + 1,)
        chances[[*sentences.NOT_WRITTEN, END, self.mask_token_id]] = -1
        best = np.argsort(-chances, kind="stable")[: min(count, len(chances) - 5)]
        return [(self.vocabulary.tokens[n], float(chances[n])) for n in best]

    @property
    def model_sizes(self) -> dict[str, int]:
        return {"vocabulary_size": len(self.vocabulary) + 1}
