"""A hash that selects the facts that share a word with a question."""

from __future__ import annotations

import numpy as np

from keras_attention.models.memory_networks.hashing import Hash, checked
from keras_attention.ops.hashing import (
    telling_words,
)


class WordHash(Hash):
    """Selects the facts that share a word with the text.

    Args:
        facts: integers (N, L), 0 is padding.
        max_share: words in more than this fraction of the facts are ignored.

    Raises:
        ValueError: if the facts are not integers (N, L), or `max_share` is not above 0.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import WordHash
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
