"""What selects the candidates of a large memory: the protocol of its indexes."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

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
                earlier hops retrieved; 0 is padding. Empty if the memory has no words.
            query: float32 (D,), the vector that the keys are compared with; None if the
                memory has no vectors.

        Returns:
            int64, the numbers of the entries in ascending order, without duplicates;
            None if all entries are candidates.
        """
        ...


def checked_candidates(
    index: Any, size: int, words: np.ndarray, query: np.ndarray | None, least: int = 0
) -> np.ndarray | None:
    """Calls `index.candidates` and checks what it returns.

    Raises:
        ValueError: if the candidates are neither None nor integers from 0 to `size` − 1
            in ascending order, without duplicates, at least `least`.
    """
    numbers = index.candidates(words, query)
    if numbers is None:
        return None
    numbers = np.asarray(numbers)
    if (
        numbers.ndim != 1
        or numbers.dtype.kind not in "iu"
        or len(numbers) < least
        or (numbers[1:] <= numbers[:-1]).any()  # differences of unsigned integers wrap
        or (numbers[:1] < 0).any()
        or (numbers[-1:] >= size).any()
    ):
        count = f", at least {least} of them" if least else ""
        raise ValueError(
            "`index.candidates` must return None or integers in ascending order"
            f"{count}, without duplicates, from 0 to {size - 1}. Received: an array "
            f"of shape {numbers.shape} and dtype {numbers.dtype}"
        )
    return numbers
