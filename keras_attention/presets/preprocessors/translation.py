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
from keras_attention.presets.preprocessors.running import packed, token_scores
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

    def translate(
        self,
        model: Any,
        text: str | Sequence[str],
        sampler: Any = "greedy",
        max_length: int = 64,
        seed: int | None = None,
        return_scores: bool = False,
    ) -> Any:
        """Returns the translation of a text, or a list with that of each text.

        A score is the geometric mean of the probabilities of the tokens.
        """
        target, inputs = self.target_vocabulary, self.encode(text)
        tokens = model.generate(
            inputs,
            max_length=max_length,
            sampler=sentences.written(sampler),
            start_token_id=target.start_token_id,
            stop_token_ids=target.end_token_id,
            seed=seed,
        )
        translations = [sentences.text_of(target.decode(row).split()) for row in tokens]
        if return_scores:
            starts = [[target.start_token_id]] * len(tokens)
            scores = token_scores(model, inputs, "target", starts, tokens)
            translations = [*map(packed, translations, scores)]
        return translations[0] if isinstance(text, str) else translations
