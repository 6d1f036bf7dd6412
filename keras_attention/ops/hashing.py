"""Hashing of facts: informative words, word clusters and facts with a common bucket.

These functions use NumPy arrays, unlike the other operations: the buckets of a memory
are filled once, differ in size and are searched outside of any compiled step.

Shapes: N facts or points, L words of a fact, V words of the vocabulary, D width, P
pairs (bucket, fact).
"""

from __future__ import annotations

import numpy as np


def inverted_index(
    facts: np.ndarray, buckets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lists the facts of each bucket. A fact is in the buckets of all its words.

    Args:
        facts: integers (N, L), 0 is padding.
        buckets: integers (V,), the bucket of each word; −1 for a word without a bucket.

    Returns:
        `members`, int64 (P,), the indices of the facts, ascending within each bucket;
        and `starts`, int64: bucket b is `members[starts[b] : starts[b + 1]]`.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import hashing
    >>> facts, buckets = np.array([[1, 2], [2, 2], [3, 0]]), np.array([-1, 0, 1, 1])
    >>> members, starts = hashing.inverted_index(facts, buckets)
    >>> members.tolist(), starts.tolist()
    ([0, 0, 1, 2], [0, 1, 4])
    """
    size = max(len(facts), 1)
    fact, place = np.nonzero(facts)
    bucket = buckets[facts[fact, place]]
    fact, bucket = fact[bucket >= 0], bucket[bucket >= 0]
    # Unique pairs, sorted by bucket, then by fact.
    pairs = np.unique(bucket.astype("int64") * size + fact)  # (P,)
    bucket, fact = np.divmod(pairs, size)
    ends = np.arange(buckets.max(initial=-1) + 2)
    return fact.astype("int64"), np.searchsorted(bucket, ends)


def sharing(
    words: np.ndarray, buckets: np.ndarray, members: np.ndarray, starts: np.ndarray
) -> np.ndarray | None:
    """Finds the facts that share a bucket with at least one of the words.

    Args:
        words: integers of any shape, 0 is padding. Words that occur in no fact are
            ignored.
        buckets: integers (V,), the bucket of each word; −1 for a word without a bucket.
        members: as `inverted_index` returns them.
        starts: as `inverted_index` returns them.

    Returns:
        int64, the indices of the facts in ascending order; None if no word has a
        bucket.
    """
    words = np.unique(words)
    words = words[(words > 0) & (words < len(buckets))]
    wanted = np.unique(buckets[words])
    wanted = wanted[wanted >= 0]
    if not len(wanted):
        return None
    found = [members[starts[b] : starts[b + 1]] for b in wanted]
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))


def telling_words(facts: np.ndarray, max_share: float) -> np.ndarray:
    """Finds the informative words: those that occur in few of the facts.

    Args:
        facts: integers (N, L), 0 is padding.
        max_share: the largest fraction of the facts in which a word may occur.

    Returns:
        int64, the words in ascending order.

    Raises:
        ValueError: if `max_share` is not above 0.
    """
    if not max_share > 0:
        raise ValueError(
            f"`max_share` must be above 0. Received: max_share={max_share}"
        )
    ordered = np.sort(facts, axis=1)
    # Count each word once per fact.
    first = np.diff(ordered, axis=1, prepend=0) != 0
    count = np.bincount(ordered[first])
    return np.flatnonzero((count > 0) & (count <= max_share * len(facts)))


def k_means(
    points: np.ndarray, clusters: int, seed: int = 0, rounds: int = 25
) -> np.ndarray:
    """Clusters points by Lloyd's algorithm with k-means++ initialization.

    The first centre is a random point. Each further centre is a point sampled with a
    probability proportional to its squared distance from the nearest centre so far.

    Args:
        points: numbers (N, D).
        clusters: the number of clusters.
        seed: the random seed.
        rounds: the maximum number of iterations; the algorithm stops early at
            convergence.

    Returns:
        int64 (N,), the cluster of each point.

    Reference:
        Arthur & Vassilvitskii, "k-means++: the advantages of careful seeding" (2007).
    """
    rng = np.random.default_rng(seed)
    centres = points[rng.integers(len(points))][None]
    nearest = squared_distances(points, centres)[:, 0]
    while len(centres) < clusters:
        # If every point is a centre already, any point will do.
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
    """Computes ‖p − c‖² for all points (N, D) and centres: (N, number of centres)."""
    squares = (points**2).sum(1)[:, None] + (centres**2).sum(1)
    return np.maximum(squares - 2 * points @ centres.T, 0)
