"""The picture of several heads."""

import numpy as np
import pytest
from figures import assert_in_sight

from keras_attention.visualization import plot_heads

pytest.importorskip("matplotlib")


def weights(heads, length, keys):
    return np.random.default_rng(0).dirichlet(np.ones(keys), (heads, length))


def texts_of(figure):
    return [text.get_text() for text in figure.texts]


def test_a_panel_a_head_holds_its_weights():
    given = weights(2, 3, 5)
    queries, keys = ["a", "$b", ""], ["v", "", "w", "x", "y"]
    figure = plot_heads(given, queries, keys, "English", "German", title="Block 1")
    assert len(figure.axes) == 2
    for ax, head in zip(figure.axes, given):
        (mesh,) = ax.collections
        shown = np.asarray(mesh.get_array()).reshape(2, 4)
        np.testing.assert_array_equal(shown, head[:2, [0, 2, 3, 4]])
        assert mesh.get_clim() == (0.0, 1.0)
        assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "$b"]
        labels = [text.get_text() for text in ax.get_xticklabels()]
        assert labels == ["v", "w", "x", "y"]
        assert ax.get_ylim() == (2, 0)  # the first query on top
    texts = texts_of(figure)
    assert texts[:3] == ["Block 1", "head 1", "head 2"]
    assert "Rows: English. Columns: German." in texts
    lost = 100 * given[:, :2, 1].max()
    assert f"Up to {lost:.0f} % of a row lies on columns without a token." in texts
    named = plot_heads(given, queries, keys, titles=["near", "far"])
    assert texts_of(named)[:2] == ["near", "far"]


@pytest.mark.parametrize(("heads", "length"), [(1, 2), (2, 9), (7, 3)])
def test_nothing_overlaps_or_is_cut_off(heads, length):
    queries = [f"word{n}" for n in range(length)]
    titles = ["a rather long title"] * heads
    figure = plot_heads(
        weights(heads, length, 5),
        queries,
        ["i", "ii", "iii", "iv", "five"],
        titles=titles,
    )
    assert_in_sight(figure)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weights": np.eye(2)}, r"\(H, T, S\).*weights.shape=\(2, 2\)"),
        (
            {"weights": np.zeros((1, 2, 3, 3))},
            r"of a batch, one sample.*\(1, 2, 3, 3\)",
        ),
        ({"weights": np.full((1, 2, 2), 1.5)}, r"lie in \[0, 1\].*max=1.5"),
        ({"query_tokens": ["a", "b", "c"]}, "at most one item a row"),
        ({"key_tokens": "ab"}, "not one string. Received: key_tokens='ab'"),
        ({"titles": ["one", "two"]}, r"one string a head.*1 head\(s\)"),
        ({"titles": "x"}, "one string a head. Received: titles='x'"),
    ],
)
def test_bad_heads(changed, message):
    given = {
        "weights": np.eye(2)[None],
        "query_tokens": ["a", "b"],
        "key_tokens": ["c", "d"],
    }
    with pytest.raises(ValueError, match=message):
        plot_heads(**{**given, **changed})
