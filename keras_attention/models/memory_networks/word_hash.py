"""A hash that selects the facts that share a word with a question."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.layers.base.arguments import positive
from keras_attention.models.memory_networks.hashing import Hash, Postings, checked
from keras_attention.ops.hashing import rarest, united


class WordHash(Hash):
    """Selects the facts that share a word with the text.

    Words in more than `max_share` of all facts, such as "the", would select nearly all
    facts and are ignored. If no other word of a text occurs in a fact, every fact is a
    candidate. The index lists the facts of all words, so `append` may change which
    words are ignored: it gives the same index as a new hash of all facts.

    With a `budget`, the selection is a heuristic. It takes the facts of the rarest
    words, as long as the budget holds all facts of a word. Of the more frequent words,
    it takes the facts with two of them, and then the newest. See
    `ops.hashing.rarest`.

    Args:
        facts: integers (N, L), 0 is padding.
        max_share: words in more than this fraction of the facts are ignored.
        budget: the largest number of candidates; None for all that share a word.
        verbose: 1 shows a progress bar while the index is built.

    Raises:
        ValueError: if the facts are not integers (N, L), `max_share` is not above 0, or
            `budget` is below 1.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import WordHash
    >>> index = WordHash(np.array([[3, 1], [4, 1], [3, 2], [5, 2]]), max_share=0.5)
    >>> index.candidates(np.array([4, 3])).tolist()
    [0, 1, 2]

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.3.
    """

    def __init__(
        self,
        facts: np.ndarray,
        max_share: float = 0.01,
        budget: int | None = None,
        verbose: int = 0,
    ) -> None:
        facts = checked(facts)
        self._set(max_share, budget)
        super().__init__(facts, each_word(int(facts.max(initial=0)) + 1), verbose)

    def _set(self, max_share: float, budget: int | None) -> None:
        if not max_share > 0:
            raise ValueError(
                f"`max_share` must be above 0. Received: max_share={max_share}"
            )
        self.max_share = max_share
        self.budget = None if budget is None else positive("budget", budget)

    def candidates(
        self, words: np.ndarray, query: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Returns the facts that share a word with the text.

        Args:
            words: integers of any shape, the words of the question and of the facts
                found so far; 0 is padding. Words that occur in no fact are ignored.
            query: ignored.

        Returns:
            int64, row indices of `facts` in ascending order; None if all facts are
            candidates.
        """
        lists = [self._facts_of(word) for word in words_of(words)]
        most = self.max_share * self.size
        lists = [parts for parts in lists if 0 < sum(map(len, parts)) <= most]
        if not lists:
            return None
        whole = [self._numbered(parts) for parts in lists]
        return united(whole) if self.budget is None else rarest(whole, self.budget)

    def _facts_of(self, word: int) -> list[np.ndarray]:
        """Returns the facts with a word, for each segment."""
        return [
            members[starts[word] : starts[word + 1]]
            if word + 1 < len(starts)
            else members[:0]
            for _, members, starts in self.segments
        ]

    def _numbered(self, parts: list[np.ndarray]) -> np.ndarray:
        """Joins the facts of all segments, and counts them from the first segment."""
        if len(parts) == 1:
            return parts[0]
        firsts = np.cumsum([0, *(s.size for s in self.segments[:-1])])
        return np.concatenate(
            [part.astype("int64") + first for part, first in zip(parts, firsts)]
        )

    def extended(self, facts: np.ndarray) -> list[Postings]:
        words = max(len(self._buckets), int(facts.max(initial=0)) + 1)
        self._buckets = each_word(words)
        return super().extended(facts)

    def options(self) -> dict[str, Any]:
        return {"max_share": self.max_share, "budget": self.budget}

    def arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _restore(self, arrays: dict[str, np.ndarray], options: dict[str, Any]) -> None:
        self._set(options["max_share"], options["budget"])
        self._buckets = each_word(1)


def words_of(text: Any) -> list[int]:
    """Returns the different words of a text without padding, as Python integers.

    Sums of integers of NumPy wrap around in a small dtype.
    """
    return [word for word in np.unique(text).tolist() if word > 0]


def each_word(count: int) -> np.ndarray:
    """Returns a bucket of its own for each of `count` words; none for padding."""
    buckets = np.arange(count)
    buckets[0] = -1
    return buckets
