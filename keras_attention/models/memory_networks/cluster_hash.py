"""A hash that selects the facts that share a word cluster with a question."""

from __future__ import annotations

import numpy as np

from keras_attention.models.memory_networks.hashes import Hash, checked
from keras_attention.ops.hashing import k_means, telling_words


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
        if clusters < 1:
            raise ValueError(
                f"`clusters` must be at least 1. Received: clusters={clusters}"
            )
        words = telling_words(facts, max_share)
        self.clusters = np.full(len(vectors), -1)  # of each word; −1 for none
        if len(words):
            count = min(clusters, len(words))
            self.clusters[words] = k_means(vectors[words], count, seed)
        super().__init__(facts, verbose)

    def buckets_of(self, words: np.ndarray) -> np.ndarray:
        known = (words > 0) & (words < len(self.clusters))
        return np.where(known, self.clusters[np.where(known, words, 0)], -1)
