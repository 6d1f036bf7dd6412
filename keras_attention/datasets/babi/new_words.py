"""Words outside a vocabulary: numbers that mean other words in each story.

```python
from keras_attention.datasets import babi

known = babi.Vocabulary.from_examples(train)
vocabulary = babi.with_new_words(known, 16)  # adds "<new-1>" … "<new-16>"
told = babi.number_new_words(test, known, 16)
vectors = babi.vectorize(told, vocabulary)
```
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.vectors import Vocabulary
from keras_attention.datasets.sizes import check_size


def with_new_words(vocabulary: Vocabulary, count: int) -> Vocabulary:
    """Appends the words `<new-1>` … `<new-count>` to a vocabulary.

    Their indices are `len(vocabulary)` … `len(vocabulary) + count - 1`: those of the
    new words of a `MemNN` with `vocabulary_size=len(vocabulary)` and `new_words=count`.

    Raises:
        ValueError: `count` is below 1.
    """
    check_size("count", count)
    return Vocabulary([*vocabulary.words[2:], *(_name(n) for n in range(count))])


def new_words_of(example: Example, vocabulary: Vocabulary) -> tuple[str, ...]:
    """Returns the distinct unknown words of an example, in order of appearance.

    The story comes first, then the question.
    """
    words = [word for fact in example.story for word in fact]
    return tuple(vocabulary.unknown_words([*words, *example.question]))


def number_new_words(
    examples: Iterable[Example], vocabulary: Vocabulary, count: int
) -> list[Example]:
    """Replaces the unknown words of each example by `<new-1>`, `<new-2>`, ….

    The numbers start anew in each example. `new_words_of` gives the words by number. An
    unknown answer is replaced if it occurs in its example.

    Args:
        examples: The examples.
        vocabulary: The known words.
        count: Largest number of unknown words in an example.

    Returns:
        A list of examples whose words are all in `with_new_words(vocabulary, count)`,
        except for answers that do not occur in their example.

    Raises:
        ValueError: `count` is below 1, or an example has more unknown words.
    """
    check_size("count", count)
    numbered = []
    for i, example in enumerate(examples):
        unknown = new_words_of(example, vocabulary)
        if len(unknown) > count:
            raise ValueError(
                f"examples[{i}] has {len(unknown)} words outside the vocabulary, more "
                f"than `count`. Received: count={count}, words={list(unknown)}"
            )
        names = {word: _name(n) for n, word in enumerate(unknown)}
        numbered.append(renamed(example, names))
    return numbered


def renamed(example: Example, names: dict[str, str]) -> Example:
    """Replaces words of the story, the question and the answer of an example.

    Args:
        example: The example.
        names: Maps words to their new names; other words stay.
    """
    new = [tuple(names.get(word, word) for word in fact) for fact in example.story]
    answer = example.answer
    return replace(
        example,
        story=tuple(new),
        question=tuple(names.get(word, word) for word in example.question),
        answer=None if answer is None else names.get(answer, answer),
    )


class WordDropout:
    """Pretends in each story that some known words are new.

    Each distinct word of an example becomes new with the probability `rate`. It then
    has one of the numbers of new words, chosen at random, everywhere in the story, the
    question and the answer. A network that is trained on such stories learns to use the
    contexts of words it does not know. Call this on each batch, so that the words
    differ in each epoch.

    Weston, Chopra & Bordes, *Memory Networks*, 2014, section 3.5.

    Args:
        vocabulary_size: Number of known words, including padding and unknown.
        new_words: Number of indices for new words, from `vocabulary_size` on. If more
            words of an example would become new, a random choice of them does.
        rate: A number from 0 to 1.
        seed: Seed for the random choices.

    Raises:
        ValueError: A size is below 1, or `rate` is not from 0 to 1.

    Example:
        ```python
        dropout = babi.WordDropout(len(known), new_words=16, rate=0.3)
        story, question, answers = dropout(story, question, answers)
        ```
    """

    def __init__(
        self, vocabulary_size: int, new_words: int, rate: float = 0.3, seed: int = 0
    ) -> None:
        check_size("vocabulary_size", vocabulary_size)
        check_size("new_words", new_words)
        if not 0 <= rate <= 1:
            raise ValueError(f"`rate` must be from 0 to 1. Received: rate={rate!r}")
        self.vocabulary_size = vocabulary_size
        self.new_words = new_words
        self.rate = rate
        self._generator = np.random.default_rng(seed)

    def __call__(
        self, story: np.ndarray, question: np.ndarray, answers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Replaces words, independently in each example.

        Args:
            story: (N, M, L) integers.
            question: (N, L) integers.
            answers: (N,) integers.

        Returns:
            The story, question and answers after the replacement. Their dtypes are
            those of the arguments, or wider if these cannot hold the new indices.

        Raises:
            ValueError: An index is not that of a known word.
        """
        size, count = self.vocabulary_size, len(story)
        flat = story.reshape(count, math.prod(story.shape[1:]))
        for name, x in (("story", story), ("question", question), ("answers", answers)):
            if x.dtype.kind not in "iu":
                raise ValueError(
                    f"`{name}` must hold integers. Received: dtype={x.dtype}"
                )
            for index in (x.min(initial=0), x.max(initial=0)):
                if not 0 <= index < size:
                    raise ValueError(
                        f"`{name}` must hold known words, at least 0 and below {size}. "
                        f"Received: {index}"
                    )
        texts = np.concatenate([flat, question], axis=1, dtype="int64")
        rows = np.arange(count)[:, None]
        chance = np.full((count, size), 2.0)
        chance[rows, texts] = self._generator.random((count, size))[rows, texts]
        chance[:, :2] = 2.0  # padding and unknown
        # The chance of dropped words is uniform, so this is a random order of them.
        rank = chance.argsort(axis=1).argsort(axis=1)
        dropped = (chance < self.rate) & (rank < self.new_words)
        slots = self._generator.random((count, self.new_words)).argsort(axis=1)
        numbers = size + slots[rows, np.minimum(rank, self.new_words - 1)]
        new = np.where(dropped, numbers, np.arange(size))
        last = size + self.new_words - 1

        def renumbered(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
            replaced = np.take_along_axis(new, rows.astype("int64"), axis=1)
            fits = np.iinfo(x.dtype).max >= last
            wider = np.promote_types(x.dtype, np.min_scalar_type(last))
            return replaced.reshape(x.shape).astype(x.dtype if fits else wider)

        return (
            renumbered(story, flat),
            renumbered(question, question),
            renumbered(answers, answers[:, None]),
        )


def _name(number: int) -> str:
    return f"<new-{number + 1}>"
