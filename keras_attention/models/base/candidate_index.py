"""What finds the candidates of a large memory: the protocol of its indexes."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class CandidateIndex(Protocol):
    """Selects which of many entries of a memory are scored.

    `WordHash` and `ClusterHash` select facts by words, and `VectorIndex` selects
    entries by vectors. `LargeMemory` and `AssociativeMemory.retrieve` accept every
    object with these two attributes.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import CandidateIndex, MemNN
    >>> class Newest:
    ...     def __init__(self, size, count):
    ...         self.size, self.count = size, count
    ...
    ...     def candidates(self, words, query=None):
    ...         return np.arange(max(self.size - self.count, 0), self.size)
    >>> isinstance(Newest(3, 2), CandidateIndex)
    True
    >>> memory = MemNN(6, supports=1).remember(np.eye(3, dtype=int), Newest(3, 2))
    >>> memory.answer(np.array([[5, 4]])).scored.tolist()
    [2]
    """

    @property
    def size(self) -> int:
        """N, the number of entries that the index was built from."""
        ...

    def candidates(
        self, words: np.ndarray, query: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Selects the candidates for one question.

        Args:
            words: integers (n,), the words of the question and of the facts that
                earlier hops found; 0 is padding. Empty if the memory has no words.
            query: float32 (D,), the vector that the keys are compared with; None if the
                memory has no vectors.

        Returns:
            int64, the numbers of the entries in ascending order, without duplicates;
            None if all entries are candidates.
        """
        ...
