"""Hashing of facts: which words say something, which are alike, which facts share one.

NumPy arrays, unlike the other operations: the buckets of a memory are filled once, are
of unequal sizes and are searched outside of any compiled step.

Shapes: N facts or points, L words of a fact, V words of the vocabulary, D width, P
pairs of a bucket and a fact.
"""

from __future__ import annotations

import numpy as np


def inverted_index(
    facts: np.ndarray, buckets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The facts of each bucket: a fact is in the buckets of its words.

    Args:
        facts: integers (N, L), 0 is padding.
        buckets: integers (V,), the bucket of each word; −1 for a word without one.

    Returns:
        `members`, int64 (P,): numbers of facts, bucket by bucket, ascending in each;
        `starts`, int64: bucket b is `members[starts[b] : starts[b + 1]]`.

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
    # Each pair once, sorted by bucket, then by fact.
    pairs = np.unique(bucket.astype("int64") * size + fact)  # (P,)
    bucket, fact = np.divmod(pairs, size)
    ends = np.arange(buckets.max(initial=-1) + 2)
    return fact.astype("int64"), np.searchsorted(bucket, ends)


def sharing(
    words: np.ndarray, buckets: np.ndarray, members: np.ndarray, starts: np.ndarray
) -> np.ndarray | None:
    """The facts that share a bucket with one of these words.

    Args:
        words: integers of any shape, 0 is padding. A word that no fact has is passed
            over.
        buckets: integers (V,), the bucket of each word; −1 for a word without one.
        members: as `inverted_index` returns them.
        starts: as `inverted_index` returns them.

    Returns:
        int64, numbers of facts in ascending order; None where no word has a bucket.
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
    """The words that stand in few enough facts to say something.

    Args:
        facts: integers (N, L), 0 is padding.
        max_share: the part of the facts, at most, that a word stands in.

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
    # Each word of a fact once.
    first = np.diff(ordered, axis=1, prepend=0) != 0
    count = np.bincount(ordered[first])
    return np.flatnonzero((count > 0) & (count <= max_share * len(facts)))


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
