"""Masks as objects: their arrays, joined masks, and what they refuse."""

import copy

import keras
import numpy as np
import pytest
from gradients import to_numpy
from keras import ops

# Keras has no public name of the scope in which it saves and loads a model.
from keras.src.saving import serialization_lib

from keras_attention import masks
from keras_attention.numerics import mask_objects
from keras_attention.ops import dot_product_attention

IDS = np.array([[1, 1, 2, 2, 2, 0, 3], [0, 4, 4, 1, 1, 1, 1]])
KEY_IDS = np.array([[1, 2, 2, 0, 3], [4, 1, 0, 4, 9]])
B, T, S = 2, 7, 5
t, s = np.arange(T)[:, None], np.arange(S)
SAME = (IDS[:, :, None] == KEY_IDS[:, None]) & (IDS[:, :, None] != 0)
LENGTHS = np.array([0, 3])
CASES = {
    "causal": (masks.Causal(), (s <= t)[None]),
    "window": (masks.Window(2), (abs(t - s) < 2)[None]),
    "segments": (masks.Segments(IDS, KEY_IDS), SAME),
    "prefix": (masks.Prefix(3), np.broadcast_to(s < 3, (1, T, S))),
    "prefixes": (
        masks.Prefix(LENGTHS),
        np.broadcast_to(s < LENGTHS[:, None, None], (B, T, S)),
    ),
    "and before or": (
        masks.Causal() & masks.Segments(IDS, KEY_IDS) | masks.Prefix(1),
        SAME & (s <= t) | (s < 1),
    ),
    "or in and": (
        masks.Segments(IDS, KEY_IDS) & (masks.Window(2) | masks.Prefix(LENGTHS)),
        SAME & ((abs(t - s) < 2) | (s < LENGTHS[:, None, None])),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_arrays(name):
    mask, expected = CASES[name]
    np.testing.assert_array_equal(to_numpy(mask.array(T, S), bool), expected)


def test_keys_are_queries_by_default():
    array = to_numpy(masks.Segments(IDS).array(T), bool)
    np.testing.assert_array_equal(
        array, (IDS[:, :, None] == IDS[:, None]) & (IDS != 0)[:, :, None]
    )


@pytest.mark.parametrize("name", CASES)
def test_outside_of_the_bounds_nothing_is_allowed(name, monkeypatch):
    monkeypatch.setattr(mask_objects, "BLOCK", 2)
    mask, expected = CASES[name]
    size, count = 3, 3
    bounds = mask.aligned().bounds(size * ops.arange(count), size, S)
    first, last = (to_numpy(x, int) for x in bounds)
    shape = (B, 1, count)
    first, last = (np.broadcast_to(x, shape)[:, 0] for x in (first, last))
    for b, n in np.ndindex(B, count):
        rows = np.broadcast_to(expected, (B, T, S))[b, n * size : (n + 1) * size]
        columns = np.flatnonzero(rows.any(0))
        if len(columns):
            assert first[b, n] <= columns[0]
            assert columns[-1] < last[b, n]


def test_bounds_of_sorted_ids_are_tight():
    ids = np.repeat(np.arange(1, 9), 64)[None]
    mask = (masks.Causal() & masks.Segments(ids)).aligned()
    first, last = mask.bounds(64 * ops.arange(8), 64, 512)
    assert to_numpy(first, int).ravel().tolist() == list(range(0, 512, 64))
    assert to_numpy(last, int).ravel().tolist() == list(range(64, 576, 64))


def test_kernels_get_what_they_know():
    joined = masks.Causal() & masks.Window(5) & masks.Window(3)
    assert mask_objects.simple(joined) == (None, True, 3)
    assert mask_objects.simple(joined & masks.Prefix(2)) is None
    assert mask_objects.simple(masks.Causal() | masks.Window(2)) is None


@pytest.mark.backends("all", reason="each backend joins tensors with Keras' symbols")
def test_symbolic_arrays():
    ids = keras.Input((T,), dtype="int32")
    length = keras.Input((), dtype="int32")
    mask = masks.Causal() & masks.Segments(ids) | masks.Prefix(length)
    queries = keras.Input((T, 2, 3))
    output = dot_product_attention(queries, queries, queries, mask)
    model = keras.Model([ids, length, queries], [mask.array(T), output])
    x = np.random.default_rng(0).normal(size=(B, T, 2, 3)).astype("float32")
    array, output = model([IDS, LENGTHS, x])
    wanted = (masks.Causal() & masks.Segments(IDS) | masks.Prefix(LENGTHS)).array(T)
    np.testing.assert_array_equal(to_numpy(array, bool), to_numpy(wanted, bool))
    x = ops.convert_to_tensor(x)
    wanted = dot_product_attention(x, x, x, wanted[:, None])
    np.testing.assert_allclose(to_numpy(output), to_numpy(wanted), atol=1e-6)


def test_keras_walks_the_arrays():
    mask = masks.Causal() & masks.Segments(IDS) | masks.Prefix(LENGTHS)
    flat = keras.tree.flatten(mask)
    assert len(flat) == 2
    assert flat[0] is mask.masks[0].masks[1].ids
    twice = keras.tree.map_structure(lambda x: 2 * x, mask)
    np.testing.assert_array_equal(twice.masks[1].length, 2 * LENGTHS)
    assert repr(twice) == repr(mask)


def test_files_hold_the_mask():
    mask = masks.Causal() & masks.Segments(IDS) | masks.Prefix(2) & masks.Window(3)
    config = keras.saving.serialize_keras_object(mask)
    again = keras.saving.deserialize_keras_object(config)
    np.testing.assert_array_equal(
        to_numpy(again.array(T), bool), to_numpy(mask.array(T), bool)
    )


REFUSED = {
    "number of keys. Received: 5 and 7": lambda: masks.Segments(IDS).array(7, 5),
    "number of queries. Received: 6 and 7": lambda: masks.Segments(IDS).array(6),
    "`size` must be a whole number of at least 1": lambda: masks.Window(0),
    "`length` must be a whole number of at least 0": lambda: masks.Prefix(1.5),
    r"`length` must hold integers of 32 bits, of shape \(batch,\)": lambda: (
        masks.Prefix(IDS)
    ),
    r"`ids` must hold integers of 32 bits, of shape \(batch, q": (
        lambda: masks.Segments([1, 2])
    ),
    "`ids` must hold integers of 32 bits.*dtype=int64, from 1 to 4294967297": (
        lambda: masks.Segments([[1, 2**32 + 1]])
    ),
    "`key_ids` must hold integers": lambda: masks.Segments(IDS, 1.0 * IDS),
    "are joined must have the same number of queries. Received: 7 and 5": (
        lambda: masks.Segments(IDS) & masks.Segments(IDS[:, :5])
    ),
    "number of queries. Received: 5 and 1": (
        lambda: (masks.Causal() & masks.Segments(IDS[:1, :1])).array(5)
    ),
    "`ids` and `key_ids` must have the same number of examples. Received: 2 and 3": (
        lambda: masks.Segments(IDS, np.ones((3, 7), "int32"))
    ),
    "are joined must have the same number of examples. Received: 2 and 3": (
        lambda: masks.Segments(IDS) | masks.Prefix(np.array([1, 2, 3]))
    ),
    "must be the `attention_mask` of a layer": lambda: ops.convert_to_tensor(
        np.asarray(masks.Causal())
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_bad_masks_are_refused(text):
    with pytest.raises(ValueError, match=text):
        REFUSED[text]()


def test_bad_joins_are_refused():
    with pytest.raises(TypeError, match="joined by & with a mask object"):
        masks.Causal() & np.ones((3, 3), bool)
    with pytest.raises(TypeError, match=r"joined by & and \|"):
        _ = masks.Causal() and masks.Window(2)


def test_masks_with_one_address_stay_apart_in_a_file():
    """Keras saves temporary copies, and takes one address for one object."""
    sharing = serialization_lib.ObjectSharingScope
    with sharing():
        configs = []
        for size in range(1, 9):
            mask = masks.Window(size) & masks.Prefix(size)
            configs.append(copy.deepcopy(keras.saving.serialize_keras_object(mask)))
            del mask
    with sharing():
        made = [keras.saving.deserialize_keras_object(x) for x in configs]
    assert [repr(x) for x in made] == [
        f"Window(size={size}) & Prefix(length={size})" for size in range(1, 9)
    ]
