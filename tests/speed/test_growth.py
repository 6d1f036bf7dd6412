"""Curves of time and memory over sizes."""

import numpy as np
import pytest

from speed.growth import plot_growth

pytest.importorskip("matplotlib")
ONE = {"name": "a", "x": [1, 2, 4], "seconds": [0.1, 0.2, 0.4], "bytes": [0, 8e6, 1e9]}


def test_panels_have_their_curves_and_guides():
    other = {**ONE, "name": "b", "group": "g"}
    figure = plot_growth(
        [{**ONE, "group": "g"}, other, {**ONE, "name": "c"}], "tokens", "Title"
    )
    time, memory = figure.axes
    assert (time.get_xscale(), time.get_yscale(), time.get_xlabel()) == (
        *("log", "log"),
        "tokens",
    )
    first, second, third, *guides = time.lines
    np.testing.assert_array_equal(first.get_ydata(), ONE["seconds"])
    assert first.get_color() == second.get_color() != third.get_color()
    assert first.get_linestyle() != second.get_linestyle()
    np.testing.assert_array_equal(memory.lines[0].get_xdata(), [2, 4])  # 0 is left out
    slopes = [
        np.diff(np.log(line.get_ydata()))[0] / np.diff(np.log(line.get_xdata()))[0]
        for line in guides
    ]
    np.testing.assert_allclose(slopes, [1, 2], rtol=1e-6)
    figure.canvas.draw()
    assert [t.get_text() for t in time.get_xticklabels()] == ["4", "2", "1"]
    assert "100 ms" in [t.get_text() for t in time.get_yticklabels()]
    assert "1 GB" in [t.get_text() for t in memory.get_yticklabels()]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["a", "b", "c"]


def test_one_size_is_drawn():
    figure = plot_growth([{"name": "a", "x": [8], "seconds": [1e-9], "bytes": [0]}])
    figure.canvas.draw()
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["8"]


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ([], "`series` must hold at least one curve"),
        ([{**ONE, "bytes": [1]}], "must have one length.*of 'a'"),
        ([{**ONE, "x": [0, 1, 2]}], "`x` of a series must be above 0"),
        ([{**ONE, "seconds": [1, 2, -1]}], "must be finite and at least 0.*of 'a'"),
        ([{**ONE, "bytes": [1, 2, np.nan]}], "must be finite and at least 0"),
    ],
)
def test_wrong_arguments_are_named(series, message):
    with pytest.raises(ValueError, match=message):
        plot_growth(series)
