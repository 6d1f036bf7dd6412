"""Hashes that select which of many facts to score.

A fact is stored in the buckets of its words. It is a candidate for a text that has a
word in one of these buckets. Hashes use only NumPy, are not trained and do not depend
on a model.

Shapes: N facts, L words of a fact, V words of the vocabulary, D width of the word
vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import keras
import numpy as np

from keras_attention.ops.hashing import (
    inverted_index,
    merged_index,
    sharing,
)

LARGEST = 2**20  # facts of the largest segment that is made by merging


class Postings(NamedTuple):
    """The inverted index of one segment, consecutive facts of a memory.

    Attributes:
        size: the number of facts.
        members: uint32 (P,), the facts of all buckets, counted from the segment's first
            fact.
        starts: int64, where the facts of each bucket start in `members`.
    """

    size: int
    members: np.ndarray
    starts: np.ndarray


class Hash:
    """An inverted index from word buckets to facts. Abstract base class.

    The index consists of segments of consecutive facts. `append` adds a segment and
    merges small ones, so that there are few.

    Args:
        facts: integers (N, L), 0 is padding.
        buckets: integers (V,), the bucket of each word; −1 for a word without a bucket.
        verbose: 1 shows a progress bar.
    """

    def __init__(
        self, facts: np.ndarray, buckets: np.ndarray, verbose: int = 0
    ) -> None:
        self._buckets = buckets
        self.segments = [
            self.indexed(facts, progress=progress(2 * len(facts), verbose))
        ]

    @property
    def size(self) -> int:
        """The number of facts."""
        return sum(segment.size for segment in self.segments)

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
        first, parts = 0, []
        for segment in self.segments:
            found = sharing(words, self._buckets, segment.members, segment.starts)
            if found is None:
                return None
            parts.append(found + first)
            first += segment.size
        return np.concatenate(parts)

    def append(self, facts: np.ndarray) -> None:
        """Adds facts after the last one, without a new index of the others.

        Args:
            facts: integers (n, L′), 0 is padding; L′ may be any length.
        """
        self.segments = self.extended(checked(facts))

    def extended(self, facts: np.ndarray) -> list[Postings]:
        """Returns the segments that the hash has after `append(facts)`."""
        count = merging([segment.size for segment in self.segments], len(facts))
        kept = len(self.segments) - count
        return [
            *self.segments[:kept],
            joined([*self.segments[kept:], self.indexed(facts)]),
        ]

    def indexed(self, facts: np.ndarray, **options: Any) -> Postings:
        """Returns the index of a segment; see `ops.hashing.inverted_index`."""
        return Postings(len(facts), *inverted_index(facts, self._buckets, **options))

    def options(self) -> dict[str, Any]:
        """Returns the arguments that a file stores beside the arrays."""
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the arrays that all segments share."""
        return {"buckets": self._buckets}

    @classmethod
    def restored(
        cls,
        segments: list[Postings],
        arrays: dict[str, np.ndarray],
        options: dict[str, Any],
    ) -> Self:
        """Makes a hash from its segments, `arrays` and `options`.

        Raises:
            ValueError: if the arrays are not those of a hash.
        """
        hash_ = cls.__new__(cls)
        hash_._restore(arrays, options)
        for segment in segments:
            check_postings(segment)
        hash_.segments = segments
        return hash_

    def _restore(self, arrays: dict[str, np.ndarray], options: dict[str, Any]) -> None:
        self._buckets = arrays["buckets"]
        if self._buckets.ndim != 1 or self._buckets.dtype.kind != "i":
            raise ValueError(
                "`buckets` must be integers (words,). Received: "
                f"buckets.shape={self._buckets.shape}, dtype={self._buckets.dtype}"
            )


def joined(segments: list[Postings]) -> Postings:
    """Merges the indexes of consecutive segments."""
    if len(segments) == 1:
        return segments[0]
    return Postings(sum(s.size for s in segments), *merged_index(segments))


def merging(sizes: list[int], new: int) -> int:
    """Returns how many of the last segments are merged with a new one.

    A segment is merged if it has at most twice as many facts as those after it. The
    number of segments therefore grows with the logarithm of the number of appended
    facts, and each fact is copied a few times.

    Args:
        sizes: the number of facts of each segment.
        new: the number of new facts.
    """
    count = 0
    for size in reversed(sizes):
        if size > 2 * new or size + new > LARGEST:
            break
        new += size
        count += 1
    return count


def check_postings(segment: Postings) -> None:
    """Checks that the arrays can be the index of a segment of `size` facts.

    Raises:
        ValueError: if they do not fit each other.
    """
    size, members, starts = segment
    if (
        any(a.ndim != 1 or a.dtype.kind not in "iu" for a in (members, starts))
        or not len(starts)
        or starts[0] != 0
        or starts[-1] != len(members)
        or (np.diff(starts) < 0).any()
        or any(
            block.min() < 0 or block.max() >= size
            for block in (members[i : i + 2**20] for i in range(0, len(members), 2**20))
        )
    ):
        raise ValueError(
            f"`members` and `starts` must be those of a hash of {size} facts. "
            f"Received: members.shape={members.shape}, starts.shape={starts.shape}"
        )


def progress(target: int | None, verbose: int) -> Callable[[int], Any] | None:
    """Returns a function that shows a number of facts in a progress bar."""
    if not verbose or not (target is None or target):
        return None
    bar = keras.utils.Progbar(target, verbose=verbose, unit_name="fact")
    return bar.update


def checked(facts: np.ndarray) -> np.ndarray:
    """Checks that the facts are integers (N, L) ≥ 0 and returns them as an array.

    L is at least 1.
    """
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
