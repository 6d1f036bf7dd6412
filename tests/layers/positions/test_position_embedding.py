"""Learned positions: read from their table, as far as it goes."""

import keras
import numpy as np
import pytest
import references
from gradients import tensor, to_numpy

from keras_attention import layers

B, T, D, LONGEST = 2, 5, 7, 11


def table():
    return references.normal(LONGEST, D).astype("float32")


def filled(**more):
    layer = layers.PositionEmbedding(LONGEST, **more)
    layer.build((None, None, D))
    layer.set_weights([table()])
    return layer


@pytest.mark.parametrize("start", [0, 4, LONGEST - T])
def test_positions_are_read_from_the_table(start):
    layer = filled()
    words = references.normal(B, T, D, seed=1).astype("float32")
    expected = np.broadcast_to(table()[start : start + T], (B, T, D))
    np.testing.assert_array_equal(to_numpy(layer(words, start=start)), expected)
    later = layer(words, start=tensor(np.array(start), "int32"))
    np.testing.assert_array_equal(to_numpy(later), expected)


def test_each_row_may_begin_at_a_position_of_its_own():
    words, start = np.zeros((B, T, D), "float32"), np.array([[LONGEST - T], [2]])
    for layer in (filled(), layers.SinePositionEncoding()):
        found = layer(words, start=tensor(start, "int32"))
        alone = [layer(words[:1], start=int(one)) for one in start[:, 0]]
        np.testing.assert_allclose(
            to_numpy(found), np.concatenate([to_numpy(x) for x in alone]), atol=1e-6
        )


def test_table_is_rounded_in_half_precision():
    layer = filled(dtype="mixed_bfloat16")
    assert layer.embedding.dtype_policy.name == "mixed_bfloat16"
    found = layer(np.zeros((B, T, D), "float32"))
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    expected = references.rounded(table()[:T], "bfloat16")
    np.testing.assert_array_equal(to_numpy(found)[1], expected)


def test_positions_carry_the_mask_of_their_inputs():
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(5, D, mask_zero=True)(tokens)
    y = keras.layers.Add()([x, filled()(x)])
    model = keras.Model(tokens, keras.layers.GlobalAveragePooling1D()(y))
    short, long = np.array([[1, 2]]), np.array([[1, 2, 0, 0]])
    np.testing.assert_allclose(
        to_numpy(model(short)), to_numpy(model(long)), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: layers.PositionEmbedding(0), "`max_length` must be at least 1"),
        (lambda: layers.PositionEmbedding(2.5), "`max_length` must be a whole number"),
        (
            lambda: filled()(np.ones((1, LONGEST + 1, D), "float32")),
            "end within `max_length`.*Received: 12 positions, max_length=11",
        ),
        (
            lambda: filled()(np.ones((1, 2, D), "float32"), start=LONGEST - 1),
            "Received: 2 positions, from start=10 on",
        ),
        (
            lambda: filled()(np.ones((1, 2, D), "float32"), start=-1),
            "`start` must be at least 0",
        ),
        (lambda: filled()(keras.Input((12, D))), "Received: 12 positions"),
        (
            lambda: layers.PositionEmbedding(3)(np.ones((1, 4), "float32")),
            "`inputs` must have rank 3",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
