"""What read heads look up, by the step that wrote it."""

from typing import NamedTuple

import numpy as np
import pytest

from keras_attention.visualization import plot_lookups

pytest.importorskip("matplotlib")


class Traced(NamedTuple):
    memory: np.ndarray
    write_weights: np.ndarray
    read_weights: np.ndarray


def trace():
    """Three steps write three slots; then a head reads slot 1, and another slot 0."""
    writes, reads = np.zeros((1, 5, 1, 3)), np.zeros((1, 5, 2, 3))
    writes[0, [0, 1, 2], 0, [0, 1, 2]] = 1
    reads[0, 3, 0, 1] = 1
    reads[0, 4, 0, 1], reads[0, 4, 0, 2] = 0.75, 0.25
    reads[0, 4, 1, 0] = 1
    return Traced(np.zeros((1, 5, 3, 2)), writes, reads)


def test_a_panel_shows_which_steps_a_head_reads():
    figure = plot_lookups(trace(), list("abcde"), first=3, title="Title")
    first, second = figure.axes
    for ax, row in ((first, "2: b"), (second, "1: a")):
        assert [t.get_text() for t in ax.get_yticklabels()] == [row]
    np.testing.assert_allclose(first.images[0].get_array(), [[1, 0.75]])
    np.testing.assert_allclose(second.images[0].get_array(), [[0, 1]])
    assert [t.get_text() for t in second.get_xticklabels()] == ["4: d", "5: e"]
    lower = plot_lookups(trace(), list("abcde"), first=3, least=0.25)
    rows = [t.get_text() for t in lower.axes[0].get_yticklabels()]
    assert rows == ["2: b", "3: c"]
    figure.canvas.draw()
    assert [t.get_text() for t in lower.texts if "Rows" in t.get_text()] == [
        "Rows: the steps that wrote 25 % or more of what is read at some step."
    ]
    assert not any("no step" in t.get_text() for t in lower.texts)
    # Steps after the labels are left out.
    assert plot_lookups(trace(), list("abcd")).axes[0].images[0].get_array().shape == (
        *(1, 4),
    )


def test_a_note_names_the_heads_without_a_large_share():
    faint = trace()
    faint.read_weights[0, 4, 1] = [0.1, 0, 0.2]
    figure = plot_lookups(faint, list("abcde"), first=3)
    rows = [[t.get_text() for t in ax.get_yticklabels()] for ax in figure.axes]
    assert rows == [["2: b"], ["3: c"]]
    note = "Head 2: no step wrote as much; the row is the step that wrote the most."
    assert note in [t.get_text() for t in figure.texts]
    faint.read_weights[0, :, 0] = 0.1
    texts = [t.get_text() for t in plot_lookups(faint, list("abcde"), first=3).texts]
    assert note.replace("Head 2", "Heads 1, 2") in texts


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"first": 5}, "`first` must be a step from 0 to 4"),
        ({"least": 0}, "`least` must be above 0"),
        ({"labels": ""}, "`labels` must be a sequence"),
        ({"labels": list("abcdef")}, "must have at most as many steps"),
        ({"sample": 1}, "`sample` must be one of the batch"),
    ],
)
def test_wrong_arguments_are_named(more, message):
    with pytest.raises(ValueError, match=message):
        plot_lookups(trace(), **{"labels": list("abcde"), **more})
