"""Hashes that pick, out of many facts, those that are worth scoring.

A fact falls into the buckets of its words, and is a candidate for a text that has a
word in one of these. NumPy alone: nothing here is trained, and nothing knows a model.

Shapes: N facts, L words of a fact, V words of the vocabulary, D width of their vectors.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from keras_attention.ops.hashing import (
    inverted_index,
    k_means,
    sharing,
    telling_words,
)


class Hash:
    """An inverted index from buckets of words to facts. Abstract.

    Words that stand in more than `max_share` of all facts, such as "the", would pick
    nearly all of them; they have no bucket. A text without any word that has one says
    nothing of what to look for: then every fact is a candidate.

    Args:
        facts: integers (N, L), 0 is padding.
        buckets: integers (V,), the bucket of each word; −1 for a word without one.
    """

    def __init__(self, facts: np.ndarray, buckets: np.ndarray) -> None:
        self.size = len(facts)
        self._buckets = buckets
        self._members, self._starts = inverted_index(facts, buckets)

    def candidates(self, words: np.ndarray) -> np.ndarray | None:
        """The facts that share a bucket with one of these words.

        Args:
            words: integers of any shape, 0 is padding. A word that no fact has is
                passed over.

        Returns:
            int64, rows of `facts` in ascending order; None for all of them.
        """
        return sharing(words, self._buckets, self._members, self._starts)

    def tables(self) -> dict[str, np.ndarray]:
        """What the hash has worked out of its facts: integers, to be stored."""
        return {
            "buckets": self._buckets,
            "members": self._members,
            "starts": self._starts,
        }

    @classmethod
    def from_tables(cls, size: int, tables: dict[str, np.ndarray]) -> Self:
        """The hash of `size` facts that has these `tables`.

        Raises:
            ValueError: if they are not the tables of a hash of so many facts.
        """
        buckets, members, starts = (
            tables[name] for name in ("buckets", "members", "starts")
        )
        if (
            any(t.ndim != 1 or t.dtype.kind != "i" for t in (buckets, members, starts))
            or len(starts) != buckets.max(initial=-1) + 2
            or starts[0] != 0
            or starts[-1] != len(members)
            or (np.diff(starts) < 0).any()
            or members.min(initial=0) < 0
            or members.max(initial=-1) >= size
        ):
            raise ValueError(
                f"`tables` must be those of a hash of {size} facts. Received: "
                + ", ".join(f"{name}.shape={t.shape}" for name, t in tables.items())
            )
        made = cls.__new__(cls)
        made.size = size
        made._buckets, made._members, made._starts = buckets, members, starts
        return made


class WordHash(Hash):
    """A fact is a candidate if it shares a word with the text.

    Args:
        facts: integers (N, L), 0 is padding.
        max_share: words that stand in more than this part of the facts do not count.

    Raises:
        ValueError: if the facts are not integers (N, L), or `max_share` is not above 0.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models.memory_networks.hashing import WordHash
    >>> index = WordHash(np.array([[3, 1], [4, 1], [3, 2], [5, 2]]), max_share=0.5)
    >>> index.candidates(np.array([4, 3])).tolist()
    [0, 1, 2]

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.3.
    """

    def __init__(self, facts: np.ndarray, max_share: float = 0.01) -> None:
        facts = checked(facts)
        words = telling_words(facts, max_share)
        buckets = np.full(facts.max(initial=0) + 1, -1)
        buckets[words] = np.arange(len(words))
        super().__init__(facts, buckets)


class ClusterHash(Hash):
    """A fact is a candidate if it has a word much like one of the text's.

    The words' vectors are clustered by K-means; a cluster is a bucket. Unlike a
    `WordHash`, it finds facts that say the same in other words.

    Args:
        facts: integers (N, L), 0 is padding.
        vectors: numbers (V, D), one for each word, such as `MemNN.word_vectors()`.
        clusters: how many clusters there are, at most one for each word that counts.
        max_share: words that stand in more than this part of the facts do not count.
        seed: of the words that the clusters begin with.

    Raises:
        ValueError: if the shapes do not fit, `clusters` is below 1, or `max_share` is
            not above 0.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models.memory_networks.hashing import ClusterHash
    >>> vectors = np.array([[0.0], [9.0], [9.1], [1.0], [1.1], [5.0]])
    >>> facts = np.array([[3, 1], [4, 2], [5, 1]])
    >>> index = ClusterHash(facts, vectors, clusters=3, max_share=0.5)
    >>> index.candidates(np.array([3])).tolist()
    [0, 1]

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.3.
    """

    def __init__(
        self,
        facts: np.ndarray,
        vectors: np.ndarray,
        clusters: int = 100,
        max_share: float = 0.01,
        seed: int = 0,
    ) -> None:
        facts = checked(facts)
        vectors = np.asarray(vectors, "float64")
        if vectors.ndim != 2 or len(vectors) <= facts.max(initial=0):
            raise ValueError(
                "`vectors` must have shape (words, width), with a row for each word "
                f"of `facts`. Received: vectors.shape={vectors.shape}, "
                f"facts.max()={facts.max(initial=0)}"
            )
        if clusters < 1:
            raise ValueError(
                f"`clusters` must be at least 1. Received: clusters={clusters}"
            )
        words = telling_words(facts, max_share)
        buckets = np.full(len(vectors), -1)
        if len(words):
            buckets[words] = k_means(vectors[words], min(clusters, len(words)), seed)
        super().__init__(facts, buckets)


def checked(facts: np.ndarray) -> np.ndarray:
    """The facts as an array, held to integers (N, L) of at least 0."""
    facts = np.asarray(facts)
    if facts.ndim != 2 or facts.dtype.kind not in "iu" or facts.min(initial=0) < 0:
        raise ValueError(
            "`facts` must be integers (facts, words) of at least 0. "
            f"Received: facts.shape={facts.shape}, facts.dtype={facts.dtype}"
        )
    return facts
