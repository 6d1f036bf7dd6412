"""Stories and questions in words, for memory networks.

Shapes: M memory slots, L words, V words of the vocabulary.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.datasets import babi
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.models.base.preset_folder import Preprocessor
from keras_attention.presets.preprocessors import running
from keras_attention.presets.preprocessors.sentences import check_lines

FIRST_WORD = 2  # after padding and the unknown word


def read_json(path: pathlib.Path) -> Any:
    """Reads a file of `write_json`."""
    return json.loads(path.read_text("utf-8"))


def write_json(value: Any, path: pathlib.Path) -> None:
    """Writes a value of lists, dicts, strings and numbers in one line."""
    path.write_text(json.dumps(value, ensure_ascii=False) + "\n", "utf-8")


WORDS_OF_STORIES: dict[str, tuple[str, Any, Any]] = {
    "vocabulary": ("vocabulary.txt", babi.Vocabulary.load, babi.Vocabulary.save)
}


def check_story_vocabulary(vocabulary: Any) -> babi.Vocabulary:
    """Returns a vocabulary of stories; raises a ValueError for anything else."""
    if not isinstance(vocabulary, babi.Vocabulary):
        raise ValueError(
            "`vocabulary` must be a `datasets.babi.Vocabulary`. "
            f"Received: vocabulary={vocabulary!r}"
        )
    return vocabulary


@export
class StoryPreprocessor(Preprocessor):
    """Turns a story and a question into the inputs of a memory network.

    For `MemN2N`, `MemNN` and `UniversalTransformer`, whose inputs are "story" (1, M, L)
    and "question" (1, L).

    Args:
        vocabulary: a `datasets.babi.Vocabulary` of V words.
        memory_size: M, the number of sentences that the network was trained on at most.
        sentence_length: L, the length of the longest sentence in training.
        phrases: phrases of the vocabulary that count as one word, such as `("red",
            "square")`, see `datasets.babi.join_phrases`.
        questions: the `datasets.babi.question_forms` of the questions in training. An
            `UntrainedInputWarning` flags others. With none, it flags none.
        min_score: the score below which an answer is flagged.

    Raises:
        ValueError: a size is below 1, or `vocabulary` is not of that class.
    """

    _assets = WORDS_OF_STORIES | {
        "questions": ("questions.json", read_json, write_json)
    }

    def __init__(
        self,
        vocabulary: babi.Vocabulary,
        memory_size: int,
        sentence_length: int,
        phrases: Sequence[Sequence[str]] = (),
        questions: Sequence[dict[str, Any]] = (),
        min_score: float = 0.0,
    ) -> None:
        self.vocabulary = check_story_vocabulary(vocabulary)
        self.memory_size = positive("memory_size", memory_size)
        self.sentence_length = positive("sentence_length", sentence_length)
        self.phrases = tuple(tuple(phrase) for phrase in phrases)
        self.questions = tuple(questions)
        self.min_score = min_score

    def encode(self, sentences: Sequence[str], question: str) -> dict[str, np.ndarray]:
        """Returns the inputs of the network, "story" (1, M, L) and "question" (1, L).

        Args:
            sentences: the story in reading order. Only the last M sentences are kept,
                with a `UserWarning`.
            question: the question; a question mark is not needed.

        Raises:
            ValueError: the story is empty or one string, a sentence or the question has
                no words or more than L words, or words that the vocabulary lacks.
        """
        example = self._example(sentences, question)
        if self.questions:
            running.flag(*babi.differences(example, self.questions))
        vectors = babi.vectorize(
            [example], self.vocabulary, self.memory_size, self.sentence_length
        )
        return vectors.inputs

    def answer(self, model: Any, sentences: Any, question: str, **wanted: bool) -> Any:
        """Returns the word that the network finds likeliest.

        Its score is its probability; of a `MemNN`, the softmax of what it trains by a
        margin. The attention has a column for each sentence.
        """
        inputs = self.encode(sentences, question)
        outputs = running.run(model, inputs)
        logits = outputs["answer"] if isinstance(outputs, dict) else outputs
        shares = running.probabilities(logits[0, FIRST_WORD : len(self.vocabulary)])
        word = self.vocabulary.words[FIRST_WORD + int(shares.argmax())]

        def attend() -> Any:
            hops = running.hops_of(model, inputs, outputs)
            if not isinstance(hops, np.ndarray):
                return hops
            hops = hops[:, : len(sentences)]  # no sentence before the last M is read
            return np.pad(hops, [(0, 0), (len(sentences) - hops.shape[1], 0)])

        return running.packed(
            word, float(shares.max()), attend, self.min_score, **wanted
        )

    def _example(self, sentences: Sequence[str], question: str) -> babi.Example:
        check_lines(sentences, "sentence")
        texts = {f"sentences[{i}]": text for i, text in enumerate(sentences)}
        texts["question"] = question
        for name, text in texts.items():
            if not isinstance(text, str) or not babi.tokenize(text):
                raise ValueError(
                    f"`{name}` must be a text with at least one word. "
                    f"Received: {name}={text!r}"
                )
        *story, asked = map(babi.tokenize, texts.values())
        example = babi.Example(0, tuple(story), asked, None)
        (example,) = babi.join_phrases([example], self.phrases)
        unknown: dict[str, str] = {}  # from a word to the text that holds it
        for name, words in zip(texts, (*example.story, example.question)):
            if len(words) > self.sentence_length:
                raise ValueError(
                    f"`{name}` must have at most {self.sentence_length} words. "
                    f"Received: {len(words)} words"
                )
            for word in self.vocabulary.unknown_words(words):
                unknown.setdefault(word, name)
        if unknown:
            listed = ", ".join(f"{w!r} in {name}" for w, name in unknown.items())
            raise ValueError(
                "The story and the question must consist of words that the network has "
                "learned; `model.preprocessor.vocabulary.words` lists them. "
                f"Received: {listed}"
            )
        return example
