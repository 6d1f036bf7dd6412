"""Hashes that pick, out of many facts, those that are worth scoring.

A fact falls into the buckets of its words, and is a candidate for a text that has a
word in one of these. NumPy alone: nothing here is trained, and nothing knows a model.

Shapes: N facts, L words of a fact, V words of the vocabulary, D width of their vectors.
"""

from __future__ import annotations

import numpy as np


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
        fact, place = np.nonzero(facts)
        bucket = buckets[facts[fact, place]]
        fact, bucket = fact[bucket >= 0], bucket[bucket >= 0]
        # Each pair once, sorted by bucket, then by fact.
        pairs = np.unique(bucket.astype("int64") * max(self.size, 1) + fact)
        bucket, fact = np.divmod(pairs, max(self.size, 1))
        self._facts = fact.astype("int64")
        ends = np.arange(buckets.max(initial=-1) + 2)
        self._starts = np.searchsorted(bucket, ends)

    def candidates(self, words: np.ndarray) -> np.ndarray | None:
        """The facts that share a bucket with one of these words.

        Args:
            words: integers of any shape, 0 is padding. A word that no fact has is
                passed over.

        Returns:
            int64, rows of `facts` in ascending order; None for all of them.
        """
        words = np.unique(words)
        words = words[(words > 0) & (words < len(self._buckets))]
        buckets = np.unique(self._buckets[words])
        buckets = buckets[buckets >= 0]
        if not len(buckets):
            return None
        found = [self._facts[self._starts[b] : self._starts[b + 1]] for b in buckets]
        return found[0] if len(found) == 1 else np.unique(np.concatenate(found))


class WordHash(Hash):
    """A fact is a candidate if it shares a word with the text.

    Args:
        facts: integers (N, L), 0 is padding.
        max_share: words that stand in more than this part of the facts do not count.

    Raises:
        ValueError: if the facts are not integers (N, L), or `max_share` is not above 0.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models.hashing import WordHash
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
    >>> from keras_attention.models.hashing import ClusterHash
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


def k_means(
    points: np.ndarray, clusters: int, seed: int = 0, rounds: int = 25
) -> np.ndarray:
    """Lloyd's algorithm, from centres that are drawn far from each other.

    The first centre is a point drawn at random, each further one a point drawn with a
    probability in proportion to its squared distance from the nearest centre so far.

    Args:
        points: numbers (N, D).
        clusters: how many.
        seed: of the draws.
        rounds: how often the centres move, at most; it ends when nothing changes.

    Returns:
        int64 (N,), the cluster of each point.

    Reference:
        Arthur & Vassilvitskii, "k-means++: the advantages of careful seeding" (2007).
    """
    rng = np.random.default_rng(seed)
    centres = points[rng.integers(len(points))][None]
    nearest = squared_distances(points, centres)[:, 0]
    while len(centres) < clusters:
        # Where all points are centres already, any of them will do.
        odds = nearest if nearest.sum() > 0 else np.ones(len(points))
        new = points[rng.choice(len(points), p=odds / odds.sum())][None]
        centres = np.concatenate([centres, new])
        nearest = np.minimum(nearest, squared_distances(points, new)[:, 0])
    found = squared_distances(points, centres).argmin(1)
    for _ in range(rounds):
        count = np.bincount(found, minlength=clusters)
        total = np.zeros_like(centres)
        np.add.at(total, found, points)
        filled = count > 0  # a cluster without points keeps its centre
        centres = np.where(
            filled[:, None], total / np.maximum(count, 1)[:, None], centres
        )
        new = squared_distances(points, centres).argmin(1)
        if np.array_equal(new, found):
            break
        found = new
    return found


def squared_distances(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """‖p − c‖² for all points (N, D) and all centres, one column each."""
    squares = (points**2).sum(1)[:, None] + (centres**2).sum(1)
    return np.maximum(squares - 2 * points @ centres.T, 0)


def telling_words(facts: np.ndarray, max_share: float) -> np.ndarray:
    """The words that stand in few enough facts to say something, in ascending order."""
    if not max_share > 0:
        raise ValueError(
            f"`max_share` must be above 0. Received: max_share={max_share}"
        )
    ordered = np.sort(facts, axis=1)
    # Each word of a fact once.
    first = np.diff(ordered, axis=1, prepend=0) != 0
    count = np.bincount(ordered[first])
    return np.flatnonzero((count > 0) & (count <= max_share * len(facts)))


def checked(facts: np.ndarray) -> np.ndarray:
    """The facts as an array, held to integers (N, L) of at least 0."""
    facts = np.asarray(facts)
    if facts.ndim != 2 or facts.dtype.kind not in "iu" or facts.min(initial=0) < 0:
        raise ValueError(
            "`facts` must be integers (facts, words) of at least 0. "
            f"Received: facts.shape={facts.shape}, facts.dtype={facts.dtype}"
        )
    return facts
