"""Hashing of facts: informative words, word clusters and facts with a common bucket.

These functions use NumPy arrays, unlike the other operations: the buckets of a memory
are filled once, differ in size and are searched outside of any compiled step.

Shapes: N facts or points, L words of a fact, V words of the vocabulary, D width, P
pairs (bucket, fact).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

BLOCK = 2**17  # facts indexed at a time


def inverted_index(
    facts: np.ndarray,
    buckets: np.ndarray,
    allocate: Callable[..., np.ndarray] = np.empty,
    progress: Callable[[int], Any] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Lists the facts of each bucket. A fact is in the buckets of all its words.

    A counting sort by blocks of facts: the first pass counts the facts of each bucket,
    the second pass puts each fact in its place.

    Args:
        facts: integers (N, L), 0 is padding. The array may be mapped from a file.
        buckets: integers (V,), the bucket of each word; −1 for a word without a bucket.
        allocate: makes the array `members` from its length and dtype. It may map a
            file.
        progress: receives the number of facts done, from 0 to 2 N over both passes.

    Returns:
        `members`, uint32 (P,), the indices of the facts, ascending within each bucket;
        and `starts`, int64: bucket b is `members[starts[b] : starts[b + 1]]`.

    Raises:
        ValueError: if there are 2³² facts or more.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import hashing
    >>> facts, buckets = np.array([[1, 2], [2, 2], [3, 0]]), np.array([-1, 0, 1, 1])
    >>> members, starts = hashing.inverted_index(facts, buckets)
    >>> members.tolist(), starts.tolist()
    ([0, 0, 1, 2], [0, 1, 4])
    """
    if len(facts) >= 2**32:
        raise ValueError(
            f"`facts` must be fewer than 2³². Received: len(facts)={len(facts)}"
        )
    blocks = range(0, len(facts), BLOCK)
    count = np.zeros(buckets.max(initial=-1) + 1, "int64")
    for start in blocks:
        bucket, _ = _pairs(facts[start : start + BLOCK], buckets)
        count += np.bincount(bucket, minlength=len(count))
        if progress is not None:
            progress(min(start + BLOCK, len(facts)))
    starts = np.concatenate([[0], np.cumsum(count)])
    members = allocate(int(starts[-1]), "uint32")
    place = starts[:-1].copy()
    for start in blocks:
        bucket, fact = _pairs(facts[start : start + BLOCK], buckets)
        first = np.flatnonzero(np.diff(bucket, prepend=-1))
        number = np.diff(first, append=len(bucket))
        here = bucket[first]
        shift = np.repeat(place[here] - first, number)
        members[np.arange(len(bucket)) + shift] = fact + start
        place[here] += number
        if progress is not None:
            progress(len(facts) + min(start + BLOCK, len(facts)))
    return members, starts


def _pairs(facts: np.ndarray, buckets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the different pairs of bucket and fact, ascending: two int64 (P,)."""
    fact, place = np.nonzero(facts)
    bucket = buckets[facts[fact, place]]
    fact, bucket = fact[bucket >= 0], bucket[bucket >= 0]
    pairs = np.sort(bucket.astype("int64") << 32 | fact)  # (P,)
    pairs = pairs[np.diff(pairs, prepend=-1) != 0]
    return pairs >> 32, pairs & (2**32 - 1)


def merged_index(
    indexes: Sequence[tuple[int, np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Joins indexes of consecutive facts; equals the index of all these facts.

    Args:
        indexes: for each index the number of its facts, and `members` and `starts` as
            `inverted_index` returns them.

    Returns:
        `members` and `starts`, as `inverted_index` returns them.
    """
    size = max(len(starts) for _, _, starts in indexes) - 1
    counts = [
        np.pad(np.diff(starts), (0, size + 1 - len(starts))) for *_, starts in indexes
    ]
    joined = np.concatenate([[0], np.cumsum(np.sum(counts, axis=0))]).astype("int64")
    members = np.empty(joined[-1], "uint32")
    place, first = joined[:-1].copy(), 0
    for (facts, own, starts), count in zip(indexes, counts):
        shift = np.repeat(
            place - np.pad(starts[:-1], (0, size + 1 - len(starts))), count
        )
        members[np.arange(len(own)) + shift] = own + np.uint32(first)
        place += count
        first += facts
    return members, joined


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
    wanted = wanted[wanted + 1 < len(starts)]
    found = [members[starts[b] : starts[b + 1]] for b in wanted]
    return united(found)


def united(lists: list[np.ndarray]) -> np.ndarray:
    """Joins ascending lists of facts without duplicates: ascending int64."""
    if len(lists) == 1:
        return lists[0].astype("int64")
    # The stable sort merges lists that are in order: 3 to 15 times faster than the
    # default one with 2 to 6 lists of 20,000 to 100,000 facts in all.
    found = np.concatenate(lists) if lists else np.zeros(0, "int64")
    found.sort(kind="stable")
    return found[np.diff(found.astype("int64"), prepend=-1) != 0].astype("int64")


def rarest(lists: Sequence[np.ndarray], budget: int) -> np.ndarray:
    """Selects at most `budget` facts that share the rarest words.

    1. The facts of the rarest words, as many whole lists as the budget holds.
    2. Of the remaining lists: the facts that are in two of them. Only the newest
       4 · `budget` facts of the shorter list are compared.
    3. The newest facts of the remaining lists, in equal parts, together at most a
       quarter of the budget.

    Args:
        lists: for each word its facts, ascending integers.
        budget: the largest number of selected facts.

    Returns:
        int64, the facts in ascending order. Those of step 2 are the newest if they are
        too many.

    Example:

    >>> import numpy as np
    >>> from keras_attention.ops import hashing
    >>> words = [np.array([5]), np.arange(9), np.array([2, 3, 4, 8, 9, 10])]
    >>> hashing.rarest(words, budget=4).tolist()
    [3, 4, 5, 8]
    """
    lists = sorted(lists, key=len)
    sizes = np.cumsum([len(facts) for facts in lists])
    whole = int(np.searchsorted(sizes, budget, "right"))
    found, rest = lists[:whole], lists[whole:]
    if not rest:
        return united(found)
    room = budget - (int(sizes[whole - 1]) if whole else 0)
    twice = united(
        [
            common(few[-4 * budget :], many)
            for n, few in enumerate(rest)
            for many in rest[n + 1 :]
        ]
    )
    twice = twice[max(len(twice) - room, 0) :]
    part = min(room - len(twice), budget // 4) // len(rest)
    newest = [facts[len(facts) - part :] for facts in rest]
    return united([*found, twice, *newest])


def common(fewer: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Returns what two ascending lists without duplicates have in common."""
    place = np.minimum(np.searchsorted(more, fewer), len(more) - 1)
    return fewer[more[place] == fewer]


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
    count = word_counts(facts)
    return np.flatnonzero((count > 0) & (count <= max_share * len(facts)))


def word_counts(facts: np.ndarray) -> np.ndarray:
    """Counts the facts that contain each word: int64 (largest word + 1,), 0 at 0."""
    count = np.zeros(1, "int64")
    for start in range(0, len(facts), BLOCK):
        block = np.sort(facts[start : start + BLOCK], axis=1)
        first = np.ones(block.shape, bool)  # count each word once per fact
        first[:, 1:] = block[:, 1:] != block[:, :-1]
        here = np.bincount(block[first & (block > 0)], minlength=len(count))
        here[: len(count)] += count
        count = here
    return count


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
