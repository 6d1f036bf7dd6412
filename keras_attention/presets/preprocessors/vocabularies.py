"""The base classes of preprocessors whose assets are one vocabulary or two."""

from __future__ import annotations

from typing import Any, ClassVar

from keras_attention.layers.base.arguments import positive
from keras_attention.models.base.preset_folder import Preprocessor
from keras_attention.presets.preprocessors import sentences
from keras_attention.presets.preprocessors.running import scored
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
    encode: Any
    decode: Any
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

    def translate(
        self, model: Any, text: Any, *, return_scores: bool = False, **options: Any
    ) -> Any:
        """Returns what the network writes, by the options of `generate`."""
        if not isinstance(text, str):
            text = [*sentences.named("text", text).values()]
        start = self.target_vocabulary.start_token_id
        extra_ids = getattr(model, "extra_ids", 0)  # of a model that copies words
        copying: dict[str, Any] = {"extra_ids": extra_ids} if extra_ids else {}
        if copying and self._level != "word":
            raise ValueError(
                "The preprocessor of a model that copies words must be a "
                f"`TranslationPreprocessor`. Received: a {type(self).__name__}"
            )
        encoded = self.encode(text, **copying)
        inputs = encoded if isinstance(encoded, dict) else {"source": encoded}
        length = positive("max_length", options.get("max_length", 64))
        options["max_length"] = min(length, getattr(self, "target_length", length))
        tokens = model.generate(
            inputs,
            sampler=sentences.written(options.pop("sampler", "greedy")),
            start_token_id=start,
            stop_token_ids=self.target_vocabulary.end_token_id,
            **options,
        )
        copying |= {"text": text} if copying else {}
        answers: list[Any] = self.decode(tokens, **copying)
        for line, answer in zip(sentences.named("text", text).values(), answers):
            self.check_answer(line, answer)
        if return_scores:
            starts = [[start]] * len(tokens)
            answers = scored(answers, model, inputs, starts, tokens)
        return answers[0] if isinstance(text, str) else answers

    def check_answer(self, text: str, answer: str) -> None:
        """Flags an answer that cannot be right."""
