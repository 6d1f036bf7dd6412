"""Retrieval in chunks: the same as all at once, whatever is in the table."""

import numpy as np
import pytest
from calling import few_compiled
from keras import ops

from keras_attention.ops.hopfield import energy, streaming

pytestmark = pytest.mark.backends("all")  # each backend has its own kernel

T, S, D, CHUNK = 5, 41, 7, 16


def case():
    """States of which some have scores that would overflow."""
    rng = np.random.default_rng(0)
    patterns = rng.normal(size=(S, D))
    states = rng.normal(size=(T, D)) * np.array([1e-3, 1, 1, 30, 100])[:, None]
    return states.astype("float32"), patterns.astype("float32")


def table_of(patterns, chunk=CHUNK):
    size = streaming.table_size(len(patterns), chunk)
    return np.pad(patterns, ((0, size - len(patterns)), (0, 0)))


@pytest.mark.parametrize("similarity", energy.SIMILARITIES)
@few_compiled("normalizer", streaming.NORMALIZERS, 2)
def test_chunks_make_no_difference(normalizer, similarity):
    states, patterns = case()
    table = table_of(patterns)
    table[S:] = 1e4  # is hidden
    found = streaming.streamed_update(
        states, table, S, 0.7, normalizer, similarity, CHUNK
    )
    expected = energy.hopfield_update(states, patterns, 0.7, normalizer, similarity)
    np.testing.assert_allclose(
        ops.convert_to_numpy(found),
        ops.convert_to_numpy(expected),
        rtol=1e-4,
        atol=5e-5,
    )


@pytest.mark.parametrize("normalizer", ["softmax", "softmax1"])
def test_distances_far_from_the_origin(normalizer):
    """As precise as near it: the sum of the weighted patterns is rounded, no more."""
    rng = np.random.default_rng(0)
    patterns = 1000 + rng.normal(size=(S, D))
    patterns, states = patterns.astype("float32"), patterns[:T].astype("float32")
    away = patterns.astype("float64")
    scores = -((states[:, None] - away) ** 2).sum(-1) / 2
    weights = np.exp(scores)
    weights /= weights.sum(-1, keepdims=True) + (normalizer == "softmax1")
    expected = weights @ away + (1 - weights.sum(-1, keepdims=True)) * states
    given = 1.0, normalizer, "distance"
    found = streaming.streamed_update(states, table_of(patterns), S, *given, CHUNK)
    mask = np.arange(S + 7) < S
    hidden = np.concatenate([patterns, np.zeros((7, D), "float32")])
    for new in (
        found,
        energy.hopfield_update(states, patterns, *given),
        energy.hopfield_update(states, hidden, *given, mask),
    ):
        assert np.abs(ops.convert_to_numpy(new) - expected).max() < 5e-4


def test_scores_far_below_zero_are_not_lost():
    """Nothing in the table scores 0 but what is no pattern."""
    states, patterns = case()
    patterns = np.abs(patterns) + 1
    states = -np.abs(states) - 30
    found = streaming.streamed_update(states, table_of(patterns), S, chunk=CHUNK)
    expected = energy.hopfield_update(states, patterns)
    np.testing.assert_allclose(
        ops.convert_to_numpy(found), ops.convert_to_numpy(expected), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("count", "size"), [(1, 8), (8, 8), (9, 16), (16, 16), (17, 32), (41, 48), (48, 48)]
)
def test_a_table_has_few_sizes(count, size):
    assert streaming.table_size(count, CHUNK) == size


def test_a_wrong_argument_is_named():
    states, patterns = case()
    with pytest.raises(ValueError, match=r"`normalizer` must be one of .*sparsemax"):
        streaming.streamed_update(states, patterns, S, normalizer="sparsemax")
    with pytest.raises(ValueError, match=r"multiple of `chunk` rows.*\(41, 7\)"):
        streaming.streamed_update(states, patterns, S, chunk=CHUNK)
