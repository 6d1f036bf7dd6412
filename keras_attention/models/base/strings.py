"""The methods of models that take and return strings.

Each calls a method of the model's `preprocessor` with the same name; models know no
vocabulary. `from_preset` loads a model with its preprocessor, and
`keras_attention.presets` has the classes to make one for your own model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class AnswersQuestions:
    """Mixin of models that answer questions."""

    def answer(self, sentences: Sequence[str], question: str) -> str:
        """Answers a question about sentences.

        Args:
            sentences: the story, or the facts, in reading order.
            question: the question.

        Returns:
            The answer.

        Raises:
            ValueError: the model has no preprocessor with `answer`, there are no
                sentences, a text is empty or too long, or a word is unknown.
        """
        return method_of(self, "answer")(self, sentences, question)


class Translates:
    """Mixin of models that translate."""

    def translate(
        self,
        text: str | Sequence[str],
        sampler: Any = "greedy",
        max_length: int = 64,
        seed: int | None = None,
    ) -> str | list[str]:
        """Translates a text, or each of several texts.

        A `UserWarning` names words that the vocabulary lacks; the network reads them as
        the unknown word.

        Args:
            text: a string, or a list of strings.
            sampler: see `generate`.
            max_length: the maximum number of tokens of a translation.
            seed: the seed of a random sampler.

        Returns:
            The translation, or a list with that of each text.

        Raises:
            ValueError: the model has no preprocessor with `translate`, or a text is
                empty or too long. `generate` may also raise errors.
        """
        call = method_of(self, "translate")
        return call(self, text, sampler=sampler, max_length=max_length, seed=seed)


class Completes:
    """Mixin of models that continue texts."""

    def complete(
        self,
        text: str | Sequence[str],
        sampler: Any = "greedy",
        max_length: int = 32,
        seed: int | None = None,
    ) -> str | list[str]:
        """Continues a text, or each of several texts.

        A `UserWarning` names words that the vocabulary lacks; the network reads them as
        the unknown word.

        Args:
            text: a string, or a list of strings.
            sampler: see `generate`.
            max_length: the maximum number of tokens to add.
            seed: the seed of a random sampler.

        Returns:
            The text with its continuation, or a list of them.

        Raises:
            ValueError: the model has no preprocessor with `complete`, or a text is
                empty or too long. `generate` may also raise errors.
        """
        call = method_of(self, "complete")
        return call(self, text, sampler=sampler, max_length=max_length, seed=seed)


class FillsBlanks:
    """Mixin of models that fill a blank in a text."""

    def fill(self, text: str, count: int = 5) -> list[tuple[str, float]]:
        """Finds the likeliest words for a blank.

        A `UserWarning` names words that the vocabulary lacks; the network reads them as
        the unknown word.

        Args:
            text: a text in which `___` stands for one missing word.
            count: the maximum number of words.

        Returns:
            Words with their probabilities, the likeliest first.

        Raises:
            ValueError: the model has no preprocessor with `fill`, the text has not
                exactly one blank or is too long, or the count is below 1.
        """
        return method_of(self, "fill")(self, text, count=count)


class Classifies:
    """Mixin of models that classify texts."""

    def classify(self, texts: str | Sequence[str]) -> Any:
        """Finds the class of a text, or of each of several texts.

        A `UserWarning` names words that the vocabulary lacks; the network reads them as
        the unknown word.

        Args:
            texts: a string, or a list of strings.

        Returns:
            The name of the likeliest class and its probability, or a list of such
            pairs.

        Raises:
            ValueError: the model has no preprocessor with `classify`, or a text is
                empty or too long.
        """
        return method_of(self, "classify")(self, texts)


class Captions:
    """Mixin of models that describe images."""

    def caption(self, images: Any) -> str | list[str]:
        """Describes an image, or each of several images.

        Args:
            images: an array (H, W) or (H, W, C), or (B, H, W) or (B, H, W, C), of the
                size and the scale that the preprocessor names.

        Returns:
            The caption, or a list of B captions.

        Raises:
            ValueError: the model has no preprocessor with `caption`, or the images do
                not have the right shape or scale.
        """
        return method_of(self, "caption")(self, images)


def method_of(model: Any, name: str) -> Callable:
    """Returns the method `name` of the model's preprocessor, or raises a ValueError."""
    preprocessor = model.preprocessor
    method = getattr(preprocessor, name, None)
    if method is None:
        kind = type(model).__name__
        received = "None" if preprocessor is None else type(preprocessor).__name__
        raise ValueError(
            f"`{name}` needs `model.preprocessor`, an object with the method `{name}`. "
            f"`{kind}.from_preset` loads a model with one; keras_attention.presets has "
            f"the classes to make your own. Received: preprocessor={received}"
        )
    return method
