"""Masks against NumPy, and the messages for those that do not fit."""

import numpy as np
import pytest
from gradients import to_numpy
from keras import ops

from keras_attention.ops import masks

pytestmark = pytest.mark.backends("all")


def as_bool(mask):
    return to_numpy(mask, "bool")


def test_padding():
    tokens = np.array([[3, 0, 1], [0, 0, -1]])
    np.testing.assert_array_equal(as_bool(masks.padding(tokens)), tokens != 0)
    np.testing.assert_array_equal(as_bool(masks.padding(tokens, -1)), tokens != -1)


@pytest.mark.parametrize("start", [0, 3])
def test_places_of_a_length_that_is_a_tensor(start):
    """An exported graph whose length is open has it as one."""
    found = masks.positions(ops.convert_to_tensor(5), start)
    np.testing.assert_array_equal(to_numpy(found), start + np.arange(5))


@pytest.mark.parametrize("sizes", [(3, 5), (5, 3), (7, 7), (1, 1)])
def test_causal_and_sliding_window(sizes):
    t, s = np.indices(sizes)
    np.testing.assert_array_equal(as_bool(masks.causal(*sizes)), s <= t)
    for window in (1, 2, 11):
        band = as_bool(masks.sliding_window(*sizes, window))
        np.testing.assert_array_equal(band, np.abs(t - s) < window)
        recent = as_bool(masks.merge(masks.causal(*sizes), ops.convert_to_tensor(band)))
        np.testing.assert_array_equal(recent, (s <= t) & (s > t - window))


def test_window_must_be_positive():
    with pytest.raises(ValueError, match=r"`window` must be at least 1.*window=0"):
        masks.sliding_window(3, 5, 0)


def test_merge():
    a, b = np.array([[True], [False]]), np.array([[True, False, True]])
    assert masks.merge() is None
    assert masks.merge(None, None) is None
    np.testing.assert_array_equal(as_bool(masks.merge(None, a)), a)
    np.testing.assert_array_equal(as_bool(masks.merge(a, None, b)), a & b)


B, T, S = 2, 3, 5


def test_check_takes_lists_arrays_and_ones_that_repeat():
    assert masks.check("mask", None, (2, 3)) is None
    mask = masks.check("mask", [[True, False, True]], (2, 3))
    np.testing.assert_array_equal(as_bool(mask), [[True, False, True]])
    assert tuple(masks.check("mask", np.ones((7, 3), bool), (None, 3)).shape) == (7, 3)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (
            np.ones((B, S)),
            "`value_mask` must be boolean, True where attention is allowed. "
            "Received: dtype=float64",
        ),
        (
            np.ones((B, S), "int32"),
            "`value_mask` must be boolean.*Received: dtype=int32",
        ),
        (
            np.ones((B, T, S), bool),
            r"`value_mask` must have rank 2, shape \(2, 5\). "
            r"Received: shape=\(2, 3, 5\)",
        ),
        (
            np.ones((B, T), bool),
            r"`value_mask` must have shape \(2, 5\), or 1 where a size is to be "
            r"repeated. Received: shape=\(2, 3\)",
        ),
    ],
)
def test_masks_that_do_not_fit(mask, message):
    with pytest.raises(ValueError, match=message):
        masks.check("value_mask", mask, (B, S))


def test_attention_mask_of_another_shape():
    with pytest.raises(ValueError, match=r"`attention_mask` must have rank 3"):
        masks.check("attention_mask", np.ones(S, bool), (B, T, S))
    with pytest.raises(ValueError, match=r"shape \(\?, 3, 5\).*shape=\(2, 5, 3\)"):
        masks.check("attention_mask", np.ones((B, S, T), bool), (None, T, S))
