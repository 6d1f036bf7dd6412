"""Retrieval from tables of several blocks in compiled functions."""

import numpy as np
import pytest
from calling import few_compiled
from keras import ops

from keras_attention import kernels
from keras_attention.ops.hopfield import streaming

pytestmark = pytest.mark.backends("all")  # torch has its own kernel

T, D, BETA = 5, 7, 0.7


def case(count, chunk, scale=1.0):
    """States, of which some have scores beyond exp, and a table with hidden rows."""
    rng = np.random.default_rng(0)
    patterns = scale * rng.normal(size=(count, D)).astype("float32")
    states = rng.normal(size=(T, D)) * np.array([0, 1e-3, 1, 30, 100])[:, None]
    table = np.zeros((streaming.table_size(count, chunk), D), "float32")
    table[:count] = patterns
    return states.astype("float32"), table, patterns


def compiled_update(states, table, count, chunk):
    def update(states, table, count):
        return streaming.streamed_update(states, table, count, BETA, chunk=chunk)

    given = [ops.convert_to_tensor(x) for x in (states, table)]
    return ops.convert_to_numpy(kernels.compiled(update, (), True)(*given, count))


def expected(states, patterns):
    scores = BETA * states.astype("float64") @ patterns.astype("float64").T
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ patterns / weights.sum(-1, keepdims=True)


@few_compiled(
    ("count", "chunk"),
    [
        (2048, 2048),  # one block
        (2049, 2048),  # a last block of one pattern
        (4096, 2048),  # no hidden row
        (4500, 100),  # rows that are not a multiple of a block
        (5000, 4096),  # more hidden rows than a block has
        (2050, 1025),
    ],
    2,
)
def test_blocks_make_no_difference(count, chunk):
    states, table, patterns = case(count, chunk)
    found = compiled_update(states, table, count, chunk)
    np.testing.assert_allclose(found, expected(states, patterns), rtol=1e-4, atol=1e-5)


def test_hidden_rows_have_no_weight():
    """Not even against patterns that are all less similar than a row of zeros."""
    _, table, patterns = case(2100, 2048)
    table[:2100] = patterns = 3 + abs(patterns)
    states = np.full((T, D), -1.0, "float32")
    found = compiled_update(states, table, 2100, 2048)
    np.testing.assert_allclose(found, expected(states, patterns), rtol=1e-4)


@pytest.mark.slow_on("jax", "tensorflow")
def test_weights_fade_smoothly():
    """Weights of every size down to 1e-12 are as precise as exp's."""
    states, table, patterns = case(4097, 2048)
    for size in (1e-4, 0.01, 0.3, 2.0):
        found = compiled_update(states * size, table, 4097, 2048)
        right = expected(states * np.float32(size), patterns)
        np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-6)


def test_nan_shows_in_its_row_only():
    states, table, patterns = case(4097, 2048)
    states[2, 3] = np.nan
    found = compiled_update(states, table, 4097, 2048)
    assert np.isnan(found[2]).all()
    others = [0, 1, 3, 4]
    np.testing.assert_allclose(
        found[others], expected(states[others], patterns), rtol=1e-4, atol=1e-5
    )
