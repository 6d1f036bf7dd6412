"""The methods of models that take and return strings.

Each calls a method of the model's `preprocessor` with the same name; models know no
vocabulary. `from_preset` loads a model with its preprocessor, and
`keras_attention.presets` has the classes to make one for your own model.

Each method takes one text or several, which it answers by a list. An
`UntrainedInputWarning` names how an input differs from those of training.

The score of a text is the geometric mean of the probabilities of its new tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any


class AnswersQuestions:
    """Mixin of models that answer questions."""

    def answer(
        self,
        sentences: Sequence[str],
        question: Any,
        return_scores: bool = False,
        return_attention: bool = False,
    ) -> Any:
        """Answers a question about sentences, or each of several questions.

        Args:
            sentences: the story, or the facts, in reading order.
            question: the question, or a list of questions. A route of a `DNCNetwork`
                may be a tuple of names.
            return_scores: whether to return the probability of the answer.
            return_attention: whether to return the weights (K, N) of K hops over the N
                sentences, for `keras_attention.visualization.plot_hops`; of a
                `DNCNetwork`, its `trace`, for `plot_memory`; of another model without
                hops, a dict of the maps of `record_attention`.

        Returns:
            The answer, or a tuple of it and of the score, the weights or both. For a
            list of questions, a list of them.

        Raises:
            ValueError: the model has no preprocessor with `answer`, there are no
                sentences, a text is empty or too long, or a word is unknown.
        """
        options = {"return_scores": return_scores, "return_attention": return_attention}
        call = partial(method_of(self, "answer", **options), self, sentences)
        return for_each("question", question, call, (str, tuple))


class Translates:
    """Mixin of models that translate."""

    def translate(
        self,
        text: str | Sequence[str],
        sampler: Any = "greedy",
        max_length: int = 64,
        seed: int | None = None,
        return_scores: bool = False,
    ) -> Any:
        """Translates a text, or each of several texts.

        Args:
            text: a string, or a list of strings.
            sampler: see `generate`.
            max_length: the maximum number of tokens of a translation.
            seed: the seed of a random sampler.
            return_scores: whether a translation comes with its score.

        Returns:
            The translation, or a list with that of each text.

        Raises:
            ValueError: the model has no preprocessor with `translate`, or a text is
                empty or too long. `generate` may also raise errors.
        """
        call = method_of(self, "translate", return_scores=return_scores)
        return call(self, text, sampler=sampler, max_length=max_length, seed=seed)


class Completes:
    """Mixin of models that continue texts."""

    def complete(
        self,
        text: str | Sequence[str],
        sampler: Any = "greedy",
        max_length: int = 32,
        seed: int | None = None,
        return_scores: bool = False,
    ) -> Any:
        """Continues a text, or each of several texts.

        Args:
            text: a string, or a list of strings.
            sampler: see `generate`.
            max_length: the maximum number of tokens to add.
            seed: the seed of a random sampler.
            return_scores: whether a text comes with the score of the added tokens.

        Returns:
            The text with its continuation, or a list of them.

        Raises:
            ValueError: the model has no preprocessor with `complete`, or a text is
                empty or too long. `generate` may also raise errors.
        """
        call = method_of(self, "complete", return_scores=return_scores)
        return call(self, text, sampler=sampler, max_length=max_length, seed=seed)


class FillsBlanks:
    """Mixin of models that fill a blank in a text."""

    def fill(self, text: str | Sequence[str], count: int = 5) -> list[Any]:
        """Finds the likeliest words for a blank.

        Args:
            text: a text in which `___` stands for one missing word, or a list of them.
            count: the maximum number of words.

        Returns:
            Words with their probabilities, the likeliest first, or a list of such
            lists.

        Raises:
            ValueError: the model has no preprocessor with `fill`, the text has not
                exactly one blank or is too long, or the count is below 1.
        """
        fill = partial(method_of(self, "fill"), self, count=count)
        return for_each("text", text, fill)


class Classifies:
    """Mixin of models that classify texts."""

    def classify(self, texts: str | Sequence[str]) -> Any:
        """Finds the class of a text, or of each of several texts.

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

    def caption(self, images: Any, return_scores: bool = False) -> Any:
        """Describes an image, or each of several images.

        Args:
            images: an array (H, W) or (H, W, C), or (B, H, W) or (B, H, W, C), of the
                size and the scale that the preprocessor names.
            return_scores: whether a caption comes with its score.

        Returns:
            The caption, or a list of B captions.

        Raises:
            ValueError: the model has no preprocessor with `caption`, or the images do
                not have the right shape or scale.
        """
        return method_of(self, "caption", return_scores=return_scores)(self, images)


def method_of(model: Any, name: str, **options: bool) -> Callable:
    """Returns the method `name` of the model's preprocessor, or raises a ValueError.

    Options that are False are left out: a user's preprocessor may lack them.
    """
    preprocessor = model.preprocessor
    method = getattr(preprocessor, name, None)
    if method is None:
        kind = type(model).__name__
        received = "None" if preprocessor is None else type(preprocessor).__name__
        raise ValueError(
            f"`{name}` needs `model.preprocessor`, an object with the method `{name}`. "
            f"`{kind}.from_preset` loads a model with one, which `model.save` does not "
            "store; keras_attention.presets has the classes to make your own. "
            f"Received: preprocessor={received}"
        )
    return partial(method, **{name: True for name in options if options[name]})


def for_each(name: str, values: Any, call: Callable, single: Any = str) -> Any:
    """Calls for a value of the types `single`, or for each value of an iterable."""
    if isinstance(values, single) or not isinstance(values, Iterable):
        return call(values)
    results = [call(value) for value in values]
    if not results:
        raise ValueError(f"`{name}` must not be empty. Received: {name}={values!r}")
    return results
