"""The nearest rows, and what an analogy asks for, beside NumPy."""

import numpy as np
import pytest
from calling import plain
from hopfield_references import unit

from keras_attention.ops import similarity


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_nearest_rows_equal_their_equation(rng):
    query, table = rng.normal(size=(2, 3, 5)), rng.normal(size=(11, 5))
    cosines = np.einsum("...d,vd->...v", unit(query), unit(table))
    order = np.argsort(-cosines, axis=-1)[..., :4]
    found, rows = similarity.nearest_rows(
        query.astype("float32"), table.astype("float32"), 4
    )
    np.testing.assert_array_equal(plain(rows), order)
    np.testing.assert_allclose(
        plain(found), np.take_along_axis(cosines, order, -1), atol=1e-6
    )
    assert plain(rows).dtype == "int32"


def test_lengths_do_not_matter_and_zero_is_like_nothing(rng):
    table = rng.normal(size=(7, 5)).astype("float32")
    table[3] = 0
    scale = rng.uniform(0.1, 10, (7, 1)).astype("float32")
    one, rows = similarity.nearest_rows(table[:2], table, 7)
    two, same = similarity.nearest_rows(table[:2], table * scale, 7)
    np.testing.assert_array_equal(plain(rows), plain(same))
    np.testing.assert_allclose(plain(one), plain(two), atol=1e-6)
    assert (plain(one)[plain(rows) == 3] == 0).all()


def test_hidden_rows_come_last(rng):
    table = rng.normal(size=(7, 5)).astype("float32")
    hidden = np.zeros((2, 7), bool)
    hidden[0, 0] = hidden[1, [1, 4]] = True
    cosines, rows = map(plain, similarity.nearest_rows(table[:2], table, 7, hidden))
    assert rows[0, -1] == 0
    assert {*rows[1, -2:]} == {1, 4}
    assert np.isfinite(cosines).all()
    assert (cosines[0, :-1] >= -1.001).all()
    assert cosines[0, -1] < -1e30


@pytest.mark.parametrize("count", [0, 8])
def test_count_is_held_to_the_table(rng, count):
    table = rng.normal(size=(7, 5)).astype("float32")
    with pytest.raises(ValueError, match=f"`count` must be .* count={count}, .*7, 5"):
        similarity.nearest_rows(table[0], table, count)


def test_widths_must_agree(rng):
    with pytest.raises(ValueError, match="same width"):
        similarity.nearest_rows(np.ones(4, "float32"), np.ones((3, 5), "float32"), 1)


def test_parallelogram_equals_its_equation(rng):
    a, b, c = rng.normal(size=(3, 2, 5)).astype("float32")
    found = plain(similarity.parallelogram(a, b, c))
    np.testing.assert_allclose(found, unit(b) - unit(a) + unit(c), atol=1e-6)
