"""Hashes: inverted indexes from buckets of words to facts.

A fact is in the buckets of its words. It is a candidate for a text with a word in one
of these buckets.

Shapes: N facts, L words of a fact.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, ClassVar

import keras
import numpy as np

from keras_attention.layers.base.arguments import number, positive
from keras_attention.ops.hashing import k_means, rarest, telling_words, united

BLOCK = 2**17  # facts indexed at a time


class Lists:
    """The facts of each bucket, in memory."""

    def __init__(self) -> None:
        self.size, self._parts = 0, dict[int, list[np.ndarray]]()

    def add(self, pairs: np.ndarray, count: int) -> None:
        """Adds the pairs of the next `count` facts, see `Hash.pairs`."""
        for bucket, facts in grouped(pairs, 32):
            self._parts.setdefault(bucket, []).append(facts)
        self.size += count

    def facts_of(self, bucket: int, most: float) -> np.ndarray:
        """Returns the facts of a bucket, ascending; none for more than `most`."""
        parts = self._parts.get(bucket, [np.zeros(0, "uint32")])
        if len(parts) > 1:
            parts[:] = [np.concatenate(parts)]
        return parts[0] if len(parts[0]) <= most else parts[0][:0]


class Hash(abc.ABC):
    """An inverted index from buckets of words to facts."""

    saved: ClassVar[tuple[str, ...]]  # attributes that a file has beside the lists
    max_share = 1.0  # of the facts that a bucket may hold, else it is ignored
    budget: int | None = None

    def __init__(self, facts: np.ndarray, verbose: int = 0) -> None:
        self.lists: Any = Lists()  # or a `FactFile`
        self.append(facts, verbose)

    @property
    def size(self) -> int:
        """The number of facts."""
        return self.lists.size

    def candidates(
        self, words: np.ndarray, query: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Returns the facts that share a bucket with the words; see `CandidateIndex`.

        Words that occur in no fact are ignored.
        """
        buckets = np.unique(self.buckets_of(np.asarray(words, "int64"))).tolist()
        most = self.max_share * self.size
        lists = [self.lists.facts_of(bucket, most) for bucket in buckets if bucket >= 0]
        lists = [facts for facts in lists if len(facts)]
        if not lists:
            return None
        return united(lists) if self.budget is None else rarest(lists, self.budget)

    def append(self, facts: np.ndarray, verbose: int = 0) -> None:
        """Adds facts, integers (n, L′), after the last one; L′ may be any length.

        Raises:
            ValueError: if the facts are not such integers, or the hash is that of a
                memory on the disk, whose `append` adds them to both.
        """
        facts = checked(facts)
        if not isinstance(self.lists, Lists):
            raise ValueError(
                "`append` of the memory adds facts to the hash of a memory on the "
                f"disk. Received: a hash of {self.lists.path}"
            )
        bar = progress(len(facts), verbose)
        for start in range(0, len(facts), BLOCK):
            block = facts[start : start + BLOCK]
            self.lists.add(self.pairs(block, self.size), len(block))
            bar.update(start + len(block))

    def pairs(self, facts: np.ndarray, first: int) -> np.ndarray:
        """Returns bucket · 2³² + fact, ascending int64; `first` is the first fact."""
        if first + len(facts) > 2**32:
            raise ValueError(
                f"`facts` must be at most 2³². Received: {first + len(facts)} facts"
            )
        fact, place = np.nonzero(facts)
        buckets = self.buckets_of(facts[fact, place].astype("int64"))
        pairs = np.sort((buckets << 32 | fact + first)[buckets >= 0])
        return pairs[np.diff(pairs, prepend=-1) != 0]

    @abc.abstractmethod
    def buckets_of(self, words: np.ndarray) -> np.ndarray:
        """Returns the bucket of each word, int64; −1 for none."""

    def options(self) -> dict[str, Any]:
        """Returns what a file has beside the lists."""
        return {name: np.asarray(getattr(self, name)).tolist() for name in self.saved}

    @classmethod
    def restored(cls, lists: Any, options: dict[str, Any]) -> Hash:
        """Makes a hash of lists and `options`."""
        restored = cls.__new__(cls)
        restored.lists = lists
        for name in cls.saved:
            value = options[name]
            value = np.array(value) if isinstance(value, list) else value
            setattr(restored, name, value)
        return restored


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

    saved = ("max_share", "budget")

    def __init__(
        self,
        facts: np.ndarray,
        max_share: float = 0.01,
        budget: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.max_share = number("max_share", max_share, above=0)
        self.budget = None if budget is None else positive("budget", budget)
        super().__init__(facts, verbose)

    def buckets_of(self, words: np.ndarray) -> np.ndarray:
        return np.where(words > 0, words, -1)


class ClusterHash(Hash):
    """Selects the facts with a word that is similar to a word of the text.

    The word vectors are clustered by k-means, and each cluster is a bucket. Unlike
    `WordHash`, this hash also selects facts that use other words with the same meaning.
    The clusters do not change in `append`; words that had no cluster are ignored.

    Args:
        facts: integers (N, L), 0 is padding.
        vectors: word vectors (V, D), such as `MemNN.word_vectors()`.
        clusters: the number of clusters; at most one per word that is not ignored.
        max_share: words in more than this fraction of the facts are ignored.
        seed: the random seed of the initial clusters.
        verbose: 1 shows a progress bar while the index is built.

    Raises:
        ValueError: if the shapes do not fit, `clusters` is below 1, or `max_share` is
            not above 0.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import ClusterHash
    >>> vectors = np.array([[0.0], [9.0], [9.1], [1.0], [1.1], [5.0]])
    >>> facts = np.array([[3, 1], [4, 2], [5, 1]])
    >>> index = ClusterHash(facts, vectors, clusters=3, max_share=0.5)
    >>> index.candidates(np.array([3])).tolist()
    [0, 1]

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.3.
    """

    saved = ("clusters",)

    def __init__(
        self,
        facts: np.ndarray,
        vectors: np.ndarray,
        clusters: int = 100,
        max_share: float = 0.01,
        seed: int = 0,
        verbose: int = 0,
    ) -> None:
        facts, vectors = checked(facts), np.asarray(vectors, "float64")
        if vectors.ndim != 2 or len(vectors) <= facts.max(initial=0):
            raise ValueError(
                "`vectors` must have shape (words, width), with a row for each word "
                f"of `facts`. Received: vectors.shape={vectors.shape}, "
                f"facts.max()={facts.max(initial=0)}"
            )
        count, words = positive("clusters", clusters), telling_words(facts, max_share)
        self.clusters = np.full(len(vectors), -1)  # of each word; −1 for none
        if len(words):
            count = min(count, len(words))
            self.clusters[words] = k_means(vectors[words], count, seed)
        super().__init__(facts, verbose)

    def buckets_of(self, words: np.ndarray) -> np.ndarray:
        known = (words > 0) & (words < len(self.clusters))
        return np.where(known, self.clusters[np.where(known, words, 0)], -1)


def grouped(pairs: np.ndarray, bits: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yields each value of `pairs >> bits`, and the facts of its pairs, uint32."""
    groups = pairs >> bits
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    facts = pairs.astype("<u4")  # the low 32 bits
    return zip(groups[starts].tolist(), np.split(facts, starts[1:]))


def progress(target: int | None, verbose: int) -> Any:
    """Returns a progress bar of a number of facts."""
    verbose = verbose if target != 0 else 0
    return keras.utils.Progbar(target, verbose=verbose, unit_name="fact")


def checked(facts: np.ndarray) -> np.ndarray:
    """Checks that the facts are integers (N, L) ≥ 0 with L ≥ 1; returns an array."""
    facts = np.asarray(facts)
    if (
        facts.ndim != 2
        or not facts.shape[1]
        or facts.dtype.kind not in "iu"
        or facts.min(initial=0) < 0
    ):
        raise ValueError(
            "`facts` must be integers (facts, words) of at least 0, one or more words. "
            f"Received: facts.shape={facts.shape}, facts.dtype={facts.dtype}"
        )
    return facts
