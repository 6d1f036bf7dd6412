"""Hashing, against words and facts counted one by one."""

import numpy as np
import pytest

from keras_attention.ops.hashing import (
    k_means,
    squared_distances,
    telling_words,
)

FACTS = np.array([[1, 2, 2, 0], [3, 1, 0, 0], [0, 0, 0, 0], [4, 2, 1, 6], [6, 5, 1, 3]])


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.2, [4, 5]), (0.4, [2, 3, 4, 5, 6]), (0.79, [2, 3, 4, 5, 6]), (1, range(1, 7))],
)
def test_a_word_of_few_facts_says_something(share, expected):
    assert telling_words(FACTS, share).tolist() == list(expected)


def test_no_share_at_all():
    with pytest.raises(
        ValueError, match=r"`max_share` must be above 0\. Received: max"
    ):
        telling_words(FACTS, 0.0)


def test_distances_one_by_one():
    rng = np.random.default_rng(0)
    points, centres = rng.normal(size=(5, 3)), rng.normal(size=(2, 3))
    distances = squared_distances(points, centres)
    expected = [[((p - c) ** 2).sum() for c in centres] for p in points]
    np.testing.assert_allclose(distances, expected, atol=1e-12)
    assert squared_distances(points, points).min() == 0


def test_k_means_finds_what_is_apart():
    rng = np.random.default_rng(0)
    truth = rng.permutation(np.repeat(np.arange(5), 13))
    points = np.array([[0, 0], [9, 0], [0, 9], [9, 9], [-9, 3]])[truth]
    cluster = k_means(points + rng.normal(scale=0.3, size=points.shape), 5)
    # No group is split between clusters, and no cluster holds two groups.
    assert len(set(zip(truth.tolist(), cluster.tolist()))) == 5
    assert len(set(cluster.tolist())) == 5
    # More clusters than different points.
    assert len(k_means(np.zeros((4, 2)), 3)) == 4
