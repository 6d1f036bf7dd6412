"""What hashes have in common: the facts of each bucket of words.

A fact is in the buckets of its words. It is a candidate for a text with a word in one
of these buckets.

Shapes: N facts, L words of a fact.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import keras
import numpy as np

from keras_attention.ops.hashing import rarest, united

BLOCK = 2**17  # facts indexed at a time


class Lists:
    """The facts of each bucket, in memory."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: dict[int, list[np.ndarray]] = {}

    def add(self, pairs: np.ndarray, count: int) -> None:
        """Adds the pairs of the next `count` facts, see `Hash.pairs`."""
        buckets, facts = pairs >> 32, (pairs & (2**32 - 1)).astype("uint32")
        starts = np.flatnonzero(np.diff(buckets, prepend=-1))
        for bucket, part in zip(buckets[starts].tolist(), np.split(facts, starts[1:])):
            self._parts.setdefault(bucket, []).append(part)
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
        """Returns the pairs of facts (n, L), from number `first` on, and buckets.

        They are int64, ascending: bucket · 2³² + number of the fact.
        """
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
        for name in cls.saved:
            value = options[name]
            value = np.array(value) if isinstance(value, list) else value
            setattr(restored, name, value)
        restored.lists = lists
        return restored


def progress(target: int | None, verbose: int) -> Any:
    """Returns a progress bar of a number of facts."""
    return keras.utils.Progbar(
        target, verbose=verbose and target != 0, unit_name="fact"
    )


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
