"""Pads stories with sentences of other stories that are about others.

A question about Mary keeps its answer if sentences about people and things that have
nothing to do with Mary are added to its story. What has to do with her: a sentence with
her name, and then each sentence with a name of such a sentence, and so on. Names are
those of people, animals and things that are carried; places may be shared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.datasets import babi

LONGEST = 64  # sentences of a padded story
PEOPLE = (
    *("antoine", "bill", "daniel", "fred", "jason", "jeff", "john", "julie", "mary"),
    *("sandra", "sumit", "yann"),
)
NAMES = (
    *(*PEOPLE, "bernhard", "brian", "emily", "gertrude", "greg", "jessica", "julius"),
    *("lily", "winona", "apple", "football", "milk", "pajamas"),
)
PRONOUNS = {"he", "she", "they"}


class Distractors:
    """Adds sentences about others to stories.

    Args:
        stories: (N, M, L) integers, the stories that the sentences are taken from:
            those about a person, without a pronoun.
        vocabulary: maps words to these integers.
    """

    def __init__(self, stories: np.ndarray, vocabulary: babi.Vocabulary) -> None:
        words = vocabulary.words
        self._names = np.zeros(len(words), np.int64)  # (V,), a bit per name
        for bit, name in enumerate(NAMES):
            self._names[[name == word for word in words]] = 1 << bit
        self._pronoun = np.array([bool(PRONOUNS & {*w.split("_")}) for w in words])
        sentences = np.unique(stories.reshape(-1, stories.shape[-1]), axis=0)
        people = (self._bits(sentences) & ((1 << len(PEOPLE)) - 1)) > 0
        usable = people & ~self._pronoun[sentences].any(-1)
        self._sentences = sentences[usable]  # (P, L)
        self._about = self._bits(self._sentences)  # (P,)

    def applicable(self, questions: np.ndarray) -> np.ndarray:
        """Returns whether each question (N, L) has a name: who "others" are, (N,)."""
        return self._bits(questions) > 0

    def add(
        self,
        story: np.ndarray,
        question: np.ndarray,
        count: int,
        generator: np.random.Generator,
    ) -> np.ndarray:
        """Returns a story (M, L) with up to `count` more sentences in its empty slots.

        All are added at one random place, or each at its own. None comes between a
        sentence and a pronoun that follows.
        """
        length = int(story.any(-1).sum())
        told = story[:length]  # (S, L)
        pronoun = self._pronoun[told].any(-1)  # (S,)
        about = self._bits(told)  # (S,)
        for i in range(1, length):
            if pronoun[i]:
                about[i] |= about[i - 1]
        mine, before = int(self._bits(question)), -1
        while mine != before:
            before = mine
            mine |= int(np.bitwise_or.reduce(about[(about & mine) > 0]))
        others = self._others(mine)
        count = min(count, len(story) - length)
        if not len(others) or count < 1:
            return story
        places = np.flatnonzero(~np.append(pronoun, False))
        where = generator.choice(places, 1 if generator.random() < 0.5 else count)
        where = np.sort(np.broadcast_to(where, count))
        padded = np.insert(told, where, generator.choice(others, count), axis=0)
        return np.concatenate([padded, story[length + count :]])

    def sample(
        self, question: np.ndarray, count: int, generator: np.random.Generator
    ) -> np.ndarray:
        """Returns sentences (count, L) about others than those of a question (L,)."""
        return generator.choice(self._others(self._bits(question)), count)

    def _others(self, names: Any) -> np.ndarray:
        """Returns the sentences (P, L) without these names."""
        return self._sentences[(self._about & names) == 0]

    def _bits(self, sentences: np.ndarray) -> np.ndarray:
        """Returns which names sentences (…, L) have, as the bits of integers (…)."""
        return np.bitwise_or.reduce(self._names[sentences], axis=-1)
