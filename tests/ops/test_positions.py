"""Positions: the formula by hand, and properties of ages and gaps."""

import math
from fractions import Fraction

import keras
import numpy as np
import pytest
import references
from gradients import tensor, to_numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from keras import ops

from keras_attention.ops import positions

pytestmark = pytest.mark.backends("all")

RATES = ["0.1", "0.3", "1.0"]


def test_sentence_position_by_hand():
    # J = 2, d = 4: l_k1 = 1/2 whatever k is; l_k2 = k/4.
    weights = to_numpy(positions.sentence_position(np.array([1, 2]), 2, 4))
    np.testing.assert_allclose(
        weights, [[0.5, 0.5, 0.5, 0.5], [0.25, 0.5, 0.75, 1.0]], atol=1e-7
    )
    # J = 1: (1 − 1) − (k/d)(1 − 2) = k/d.
    weights = to_numpy(positions.sentence_position(np.array([1]), 1, 2))
    np.testing.assert_allclose(weights, [[0.5, 1.0]], atol=1e-7)


def test_centered_position_by_hand():
    # J = 3, d = 2: 1 + 4 (k − 3/2) (j − 2) / 6.
    weights = positions.sentence_position(np.arange(1, 4), 3, 2, "centered_position")
    np.testing.assert_allclose(
        to_numpy(weights), [[4 / 3, 2 / 3], [1, 1], [2 / 3, 4 / 3]], atol=1e-6
    )
    # J = 1: the only word is in the middle.
    weights = positions.sentence_position(np.array([1]), 1, 2, "centered_position")
    np.testing.assert_allclose(to_numpy(weights), [[1, 1]], atol=1e-6)


def assert_equals_the_formula(encoding):
    lengths = np.array([[7], [3]])  # two sentences, each with its own J
    words = np.stack([np.arange(1, 8), np.arange(1, 8)])
    weights = to_numpy(positions.sentence_position(words, lengths, 5, encoding))
    assert weights.shape == (2, 7, 5)
    for n, w in np.ndindex(2, 7):
        expected = references.sentence_position(w + 1, lengths[n, 0], 5, encoding)
        np.testing.assert_allclose(weights[n, w], expected, rtol=0, atol=1e-5)
    return weights


def test_sentence_position_equals_the_formula():
    assert_equals_the_formula("position")


def test_centered_position_equals_the_formula():
    weights = assert_equals_the_formula("centered_position")
    np.testing.assert_allclose(weights[0].mean(), 1, atol=1e-6)


def test_centered_position_is_about_twice_that_of_the_paper():
    J, d = 101, 53
    paper, code = (
        to_numpy(positions.sentence_position(np.arange(1, J + 1), J, d, encoding))
        for encoding in positions.ENCODINGS
    )
    np.testing.assert_allclose(code, 2 * paper, atol=2 / d + 2 / J)


def test_unknown_encoding():
    arguments = np.array([1, 2]), 2
    message = r"`encoding` must be one of \['position', 'ce.*Received: encoding='bag'"
    with pytest.raises(ValueError, match=message):
        positions.sentence_position(*arguments, 4, "bag")
    with pytest.raises(ValueError, match=message):
        positions.position_weighted_sum(
            *arguments, np.array([3, 1]), tensor(np.ones((4, 3))), "bag"
        )


@pytest.mark.parametrize("encoding", positions.ENCODINGS)
@references.examples
@given(data=st.data())
def test_position_weighted_sum_equals_the_sum_over_words(encoding, data):
    numbers = st.integers(0, 6)
    tokens = data.draw(hnp.arrays(np.int32, (2, 3, 5), elements=numbers))
    table = references.normal(7, 3)
    there = tokens != 0
    j = np.cumsum(there, -1) * there
    lengths = np.maximum(there.sum(-1, keepdims=True), 1)
    found = positions.position_weighted_sum(
        *(ops.convert_to_tensor(x.astype("int32")) for x in (j, lengths, tokens)),
        tensor(table),
        encoding,
    )
    expected = references.sentences(tokens, table, encoding)
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-4, atol=1e-5)


def test_a_word_out_of_range_is_no_other_word():
    arguments = ([[1, 2], [1, 2]], [[2], [2]], [[3, 7], [-1, 3]])
    arguments = [ops.convert_to_tensor(np.array(x, "int32")) for x in arguments]
    table = references.normal(7, 3)
    if keras.config.backend() == "torch":
        with pytest.raises(RuntimeError, match="index 7 is out of bounds"):
            positions.position_weighted_sum(*arguments, tensor(table))
        arguments[2] = arguments[2] * 2  # 6, 14; a table too large to count
        large = tensor(references.normal(11, 3))
        with pytest.raises(RuntimeError, match="takes value 14 which is not in"):
            positions.position_weighted_sum(*arguments, large)
        return
    found = positions.position_weighted_sum(*arguments, tensor(table))
    k = np.arange(1, 4) / 3
    expected = [table[3] / 2, k * table[3]]  # only the words that there are
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-5, atol=1e-6)


@references.examples
@given(filled=references.booleans((3, 7)))
def test_age_counts_what_came_after(filled):
    ages = to_numpy(positions.age(ops.convert_to_tensor(filled)), "int64")
    for row, there in zip(ages, filled):
        assert np.all(row[~there] == 0)
        assert row[there].tolist() == list(range(there.sum(), 0, -1))


def most(rate, n):
    """⌈rate·n⌉ of a decimal fraction, without floating point."""
    return math.ceil(Fraction(rate) * n)


@pytest.mark.parametrize("rate", RATES)
@references.examples
@given(data=st.data())
def test_gaps_keep_order_and_drop_nothing(rate, data):
    slots = 11
    filled = data.draw(references.booleans((2, slots)))
    seed = data.draw(st.integers(0, 2**32 - 1))
    ages = positions.age(ops.convert_to_tensor(filled))
    draws = np.random.default_rng(seed).random((2, 1 + 2 * slots))
    moved = positions.insert_gaps(
        ages, ops.convert_to_tensor(draws.astype("f")), float(rate)
    )
    moved, ages = to_numpy(moved, "int64"), to_numpy(ages, "int64")
    assert np.all((moved == 0) == (ages == 0))
    assert np.all(moved >= ages)
    for row, there in zip(moved, filled):
        n = there.sum()
        assert np.all(np.diff(row[there]) < 0)
        assert np.all(row <= n + most(rate, n))


@pytest.mark.parametrize("rate", RATES)
def test_number_of_gaps_is_uniform(rate):
    """A first draw of (u + ½) / (⌈rate·n⌉ + 1) gives u empty memories, of every n."""
    slots = 53
    cases = [(n, u) for n in range(1, slots + 1) for u in (0, most(rate, n))]
    ages = np.zeros((len(cases), slots), "int32")
    draws = np.zeros((len(cases), 1 + 2 * slots), "float32")
    # Lots that fall: the facts lie beyond all empty memories and age by every one.
    draws[:, 1:] = np.linspace(0.9, 0.1, draws.shape[1] - 1)
    for row, (n, u) in enumerate(cases):
        ages[row, :n] = np.arange(n, 0, -1)
        draws[row, 0] = (u + 0.5) / (most(rate, n) + 1)
    moved = positions.insert_gaps(_int(ages), ops.convert_to_tensor(draws), float(rate))
    grown = to_numpy(moved)[:, 0] - ages[:, 0]
    np.testing.assert_array_equal(grown, [u for _, u in cases])


def _int(x):
    return ops.convert_to_tensor(x.astype("int32"))


def test_places_of_gaps_are_uniform():
    """With two facts and up to one gap, outcomes are as likely as they should."""
    rng, trials = np.random.default_rng(0), 6000
    ages = _int(np.tile([2, 1], (trials, 1)))
    draws = ops.convert_to_tensor(rng.random((trials, 4)).astype("float32"))
    moved = to_numpy(positions.insert_gaps(ages, draws, 0.5), "int64")
    counts = {case: np.mean(np.all(moved == case, axis=1)) for case in OUTCOMES}
    assert sum(counts.values()) == pytest.approx(1)
    for case, share in OUTCOMES.items():
        assert counts[case] == pytest.approx(share, abs=0.03)


# No gap in half of the cases; else one, before, between or after the two facts.
OUTCOMES = {(2, 1): 1 / 2 + 1 / 6, (3, 1): 1 / 6, (3, 2): 1 / 6}


FAR = [0, 1, 2047, 2048, 10**6 + 7, 2**23]


def test_coordinates_are_those_of_the_paper():
    """Equations 6 and 7 of the Universal Transformer, number by number."""
    position, step, d = np.array([[0, 3], [40, 7]]), 2, 6
    found = to_numpy(positions.coordinates(position, step, d))
    assert found.shape == (2, 2, d)
    for b, i, k in np.ndindex(found.shape):
        wave = math.cos if k % 2 else math.sin
        rate = 10000 ** (2 * (k // 2) / d)
        expected = wave(position[b, i] / rate) + wave(step / rate)
        assert found[b, i, k] == pytest.approx(expected, abs=1e-5)


def test_sinusoid_far_from_the_start():
    position = np.array([*FAR, -(10**6)], "int32")
    encoded = to_numpy(positions.sinusoid(ops.convert_to_tensor(position), 32))
    rates = 1e4 ** (-2 * (np.arange(32) // 2) / 32)
    angle = position[:, None] * rates
    expected = np.where(np.arange(32) % 2, np.cos(angle), np.sin(angle))
    np.testing.assert_allclose(encoded, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotation_far_from_the_start(interleaved):
    x = references.normal(2, len(FAR), 3, 8)
    rates = positions.rotary_rates(8)
    turned = to_numpy(
        positions.rotate(
            tensor(x), ops.convert_to_tensor(FAR), rates, interleaved=interleaved
        )
    )
    angle = np.array(FAR)[:, None, None] * rates
    halves = (0, 2), (1, 2)
    first, second = (
        x[..., a::b] if interleaved else x[..., 4 * a : 4 * a + 4] for a, b in halves
    )
    cos, sin = np.cos(angle), np.sin(angle)
    pairs = first * cos - second * sin, second * cos + first * sin
    expected = (
        np.stack(pairs, -1).reshape(x.shape)
        if interleaved
        else np.concatenate(pairs, -1)
    )
    np.testing.assert_allclose(turned, expected, rtol=0, atol=1e-5)


def test_fractional_positions_at_rates_above_a_turn():
    position, rates = np.array([0.25, 0.5, 1.3], "float32"), np.array([10.0, 1.0])
    found = to_numpy(positions.rotate(tensor(np.ones((3, 1, 4))), position, rates))
    angle = position[:, None] * rates
    expected = np.cos(angle) - np.sin(angle), np.sin(angle) + np.cos(angle)
    np.testing.assert_allclose(found[:, 0], np.concatenate(expected, -1), 1e-5, 1e-5)
