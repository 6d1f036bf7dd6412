"""The picture of measured capacities over theory."""

import numpy as np
import pytest

from studies.capacity.picture import plot_capacity

pytest.importorskip("matplotlib")


def test_points_lie_over_curves():
    one = {"name": "a memory", "x": [2, 3, 5], "y": [0.0, 0.1, 0.2]}
    one |= {"error": [0.01, 0.2, 0.03], "curve_x": [2, 5], "curve_y": [0.05, 0.25]}
    bare = {"name": "another", "x": [7], "y": [0.5]}
    figure = plot_capacity([one, bare], title="Title")
    (ax,) = figure.axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_title(loc="left") == "Title"
    curve, points, other = (np.array(line.get_xydata()) for line in ax.lines)
    np.testing.assert_array_equal(curve, [[2, 0.05], [5, 0.25]])
    np.testing.assert_array_equal(points, [[3, 0.1], [5, 0.2]])  # 0 has no place
    np.testing.assert_array_equal(other, [[7, 0.5]])
    bars = ax.collections[0].get_segments()
    np.testing.assert_allclose(bars[0], [[3, 0.01], [3, 0.3]])  # not down to 0
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["a memory", "another"]


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="`series` must hold at least one memory"):
        plot_capacity([])
    with pytest.raises(ValueError, match=r"`x` and `y` of a series .* of 'a'"):
        plot_capacity([{"name": "a", "x": [1, 2], "y": [1]}])
