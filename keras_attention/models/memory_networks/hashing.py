"""Hashes that select which of many facts to score.

A fact is stored in the buckets of its words. It is a candidate for a text that has a
word in one of these buckets. Hashes use only NumPy, are not trained and do not depend
on a model.

Shapes: N facts, L words of a fact, V words of the vocabulary, D width of the word
vectors.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from keras_attention.ops.hashing import (
    inverted_index,
    sharing,
)


class Hash:
    """An inverted index from word buckets to facts. Abstract base class.

    Words in more than `max_share` of all facts, such as "the", would select nearly all
    facts and therefore have no bucket. If no word of a text has a bucket, every fact is
    a candidate.

    Args:
        facts: integers (N, L), 0 is padding.
        buckets: integers (V,), the bucket of each word; −1 for a word without a bucket.
    """

    def __init__(self, facts: np.ndarray, buckets: np.ndarray) -> None:
        self.size = len(facts)
        self._buckets = buckets
        self._members, self._starts = inverted_index(facts, buckets)

    def candidates(
        self, words: np.ndarray, query: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Returns the facts that share a bucket with at least one of the words.

        Args:
            words: integers of any shape, the words of the question and of the facts
                found so far; 0 is padding. Words that occur in no fact are ignored.
            query: float32 (D,), the embedding of the query of this hop; a hash of words
                ignores it.

        Returns:
            int64, row indices of `facts` in ascending order; None if all facts are
            candidates.
        """
        return sharing(words, self._buckets, self._members, self._starts)

    def tables(self) -> dict[str, np.ndarray]:
        """Returns the computed integer arrays of the hash, for saving."""
        return {
            "buckets": self._buckets,
            "members": self._members,
            "starts": self._starts,
        }

    @classmethod
    def from_tables(cls, size: int, tables: dict[str, np.ndarray]) -> Self:
        """Restores a hash of `size` facts from its `tables`.

        Raises:
            ValueError: if the tables do not belong to a hash of `size` facts.
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


def checked(facts: np.ndarray) -> np.ndarray:
    """Checks that the facts are integers (N, L) ≥ 0 and returns them as an array."""
    facts = np.asarray(facts)
    if facts.ndim != 2 or facts.dtype.kind not in "iu" or facts.min(initial=0) < 0:
        raise ValueError(
            "`facts` must be integers (facts, words) of at least 0. "
            f"Received: facts.shape={facts.shape}, facts.dtype={facts.dtype}"
        )
    return facts
