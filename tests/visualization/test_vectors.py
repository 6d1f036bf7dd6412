"""The map of words: what lies in the plane is shown undistorted."""

import numpy as np
import pytest

from keras_attention.visualization import vectors

pytest.importorskip("matplotlib")


def test_a_plane_is_laid_flat_undistorted():
    rng = np.random.default_rng(0)
    places = rng.normal(size=(7, 2))
    axes = np.linalg.qr(rng.normal(size=(5, 2)))[0]  # two directions of five
    found = vectors.flat(places @ axes.T + 3)

    def distances(x):
        return np.linalg.norm(x[:, None] - x[None], axis=-1)

    np.testing.assert_allclose(distances(found), distances(places), atol=1e-9)


def test_words_stand_at_their_vectors():
    table, words = np.random.default_rng(1).normal(size=(4, 3)), [*"abcd"]
    figure = vectors.plot_vectors(table, words, [(0, 1)], title="Letters")
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.texts] == ["", *words]
    np.testing.assert_allclose(ax.collections[0].get_offsets(), vectors.flat(table))
    assert ax.get_title(loc="left") == "Letters"


def test_a_row_for_each_word():
    with pytest.raises(ValueError, match=r"row for each word, .*\(3, 2\), 2 words"):
        vectors.plot_vectors(np.ones((3, 2)), ["a", "b"])
