"""A hash that selects the facts that share a word with a question."""

from __future__ import annotations

import numpy as np

from keras_attention.layers.base.arguments import positive
from keras_attention.models.memory_networks.hashes import Hash


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
        if not max_share > 0:
            raise ValueError(
                f"`max_share` must be above 0. Received: max_share={max_share}"
            )
        self.max_share = max_share
        self.budget = None if budget is None else positive("budget", budget)
        super().__init__(facts, verbose)

    def buckets_of(self, words: np.ndarray) -> np.ndarray:
        return np.where(words > 0, words, -1)
