"""Curves of shares over sizes."""

import numpy as np
import pytest

from studies.pictures import plot_curves

pytest.importorskip("matplotlib")


def test_curves_have_their_bands_and_ticks():
    one = {"name": "last", "x": [1, 2, 4], "y": [1.0, 0.5, 0.25]}
    one |= {"low": [0.9, 0.4, 0.2], "high": [1.0, 0.6, 0.3]}
    chance = {"name": "chance", "x": [1, 4], "y": [0.125, 0.125]}
    figure = plot_curves([one, chance], title="Title", x_label="facts")
    (ax,) = figure.axes
    assert (ax.get_xscale(), ax.get_xlabel()) == ("log", "facts")
    assert ax.get_title(loc="left") == "Title"
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "2", "4"]
    curve, guess = ax.lines
    np.testing.assert_array_equal(curve.get_ydata(), one["y"])
    assert (curve.get_marker(), guess.get_linestyle()) == ("o", ":")
    (band,) = ax.collections
    corners = {tuple(point) for point in band.get_paths()[0].vertices}
    assert {(2.0, 0.4), (2.0, 0.6)} <= corners
    figure.canvas.draw()
    assert "50 %" not in [t.get_text() for t in ax.get_xticklabels()]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["last", "chance"]


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ([], "`series` must hold at least one curve"),
        ([{"name": "a", "x": [1, 2], "y": [1]}], "must have one length.*of 'a'"),
        ([{"name": "a", "x": [0, 2], "y": [1, 1]}], "`x` of a series must be above 0"),
        ([{"name": "a", "x": [1], "y": [1.5]}], "must be from 0 to 1.*of 'a'"),
        ([{"name": "a", "x": [1], "y": [np.nan]}], "must be from 0 to 1"),
    ],
)
def test_wrong_arguments_are_named(series, message):
    with pytest.raises(ValueError, match=message):
        plot_curves(series)
