"""Beginnings of sentences in words, for causal language models.

Shapes: B texts, T tokens of the longest text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.layers.base.serialization import export
from keras_attention.presets.preprocessors import sentences
from keras_attention.presets.preprocessors.running import scored
from keras_attention.presets.preprocessors.vocabularies import WordPreprocessor


@export
class CompletionPreprocessor(WordPreprocessor):
    """Turns texts into prompts of a `CausalLM`, and its words into their continuations.

    Words that the vocabulary lacks become the unknown word.

    Args:
        vocabulary: a `text.Vocabulary` of words.
        max_words: the maximum number of words and marks of a text.

    Raises:
        ValueError: `max_words` is below 1, or `vocabulary` is not of that class.
    """

    def encode(self, text: str | Sequence[str]) -> dict[str, np.ndarray]:
        """Returns the input "tokens" (B, T) int32: the start token and the words.

        Args:
            text: a string, or a list of B strings.

        Raises:
            ValueError: a text has no words, more than `max_words`, or only unknown
                ones; or `text` is no string and no list of strings.
        """
        start = self.vocabulary.start_token_id
        rows = [
            [start, *sentences.encode(name, line, self.vocabulary, self.max_words)]
            for name, line in sentences.named("text", text).items()
        ]
        return {"tokens": sentences.pad(rows)}

    def complete(
        self, model: Any, text: Any, *, return_scores: bool = False, **options: Any
    ) -> Any:
        """Returns a text with its continuation, by the options of `generate`."""
        if not isinstance(text, str):
            text = [*sentences.named("text", text).values()]
        prompts = self.encode(text)
        tokens = model.generate(
            prompts,
            max_length=options.pop("max_length", 32),
            sampler=sentences.written(options.pop("sampler", "greedy")),
            stop_token_ids=self.vocabulary.end_token_id,
            **options,
        )
        texts = sentences.named("text", text).values()
        completed = [
            sentences.add_words(line, self.vocabulary.decode(row).split())
            for line, row in zip(texts, tokens)
        ]
        if return_scores:
            read = [row[: np.count_nonzero(row)] for row in prompts["tokens"]]
            completed = scored(completed, model, {}, read, tokens)
        return completed[0] if isinstance(text, str) else completed
