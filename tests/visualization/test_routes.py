"""Maps with a route and an answer."""

import numpy as np
import pytest

from keras_attention.visualization import plot_route

pytest.importorskip("matplotlib")
STATIONS = ("West", "Middle", "East")
POSITIONS = np.array([[-0.2, 51.5], [-0.1, 51.5], [0.0, 51.5]])
EDGES = [
    *(("West", "Red", "Middle"), ("Middle", "Red back", "West")),
    *(("West", "Blue", "Middle"), ("Middle", "Red", "East")),
]
COLORS = {"Red": "#ff0000", "Red back": "#ff0000", "Blue": "#0000ff"}


def of_color(figure, color):
    return [line for line in figure.axes[0].lines if line.get_color() == color]


def test_lines_stations_and_the_route_are_where_they_should_be():
    figure = plot_route(STATIONS, POSITIONS, EDGES, EDGES[:1], None, COLORS, "Title")
    (ax,) = figure.axes
    assert ax.get_title("left") == "Title"
    assert {t.get_text() for t in ax.texts} == set(STATIONS)
    places = ax.collections[0].get_offsets()
    scale = np.cos(np.radians(51.5))
    np.testing.assert_allclose(places, POSITIONS * [scale, 1])
    assert len(of_color(figure, "#ff0000")) == 2  # one for both directions
    (blue,) = of_color(figure, "#0000ff")
    red = of_color(figure, "#ff0000")[0]
    assert red.get_ydata()[0] != blue.get_ydata()[0]  # side by side
    (route,) = [line for line in ax.lines if line.get_label() == "route"]
    np.testing.assert_allclose(route.get_xdata(), places[:2, 0])
    figure.canvas.draw()


def test_answered_edges_show_whether_they_are_right():
    route = [EDGES[0], EDGES[3]]
    answer = [EDGES[0], ("Middle", "Red", "West"), ("", "", "West")]
    figure = plot_route(STATIONS, POSITIONS, EDGES, route, answer)
    (ax,) = figure.axes
    arrows = [t.arrow_patch for t in ax.texts if getattr(t, "arrow_patch", None)]
    assert [arrow.get_linestyle() for arrow in arrows] == ["-", "--"]
    colors = {arrow.get_edgecolor()[:3] for arrow in arrows}
    assert len(colors) == 2
    texts = [t.get_text() for t in ax.texts]
    assert {"1", "2"} < set(texts)
    (note,) = [text for text in texts if text.startswith("yellow: the route")]
    assert note.endswith("1 of 2 edges right; 1 edges name no two stations")
    assert len(of_color(figure, "#9aa5b1")) == 2  # lines without a color


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": POSITIONS[:2]}, "`positions` must be finite numbers"),
        ({"positions": POSITIONS * np.nan}, "`positions` must be finite numbers"),
        (
            {"stations": ("B", "A", "A")},
            r"`stations` must be unique names\. Received: 'A', 2 times",
        ),
        ({"edges": [("West", "Red", "Nowhere")]}, "`edges` must hold .*'Nowhere'"),
        ({"route": [("West", "East")]}, "`route` must hold"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    given = {"stations": STATIONS, "positions": POSITIONS, "edges": EDGES, **change}
    with pytest.raises(ValueError, match=message):
        plot_route(**given)


def test_edges_may_be_lists():
    lists = [[*edge] for edge in EDGES]
    figure = plot_route(STATIONS, POSITIONS, lists, lists[:1], lists[:1], COLORS)
    (ax,) = figure.axes
    (arrow,) = [t.arrow_patch for t in ax.texts if getattr(t, "arrow_patch", None)]
    assert arrow.get_linestyle() == "-"  # the map has the edge
    assert any("1 of 1 edges right" in t.get_text() for t in ax.texts)
    assert len(of_color(figure, "#ff0000")) == 2


def test_names_of_near_stations_are_on_different_sides():
    near = np.array([[-0.2, 51.5], [-0.198, 51.5], [0.0, 51.6]])
    figure = plot_route(STATIONS, near, EDGES)
    figure.canvas.draw()
    boxes = [t.get_window_extent() for t in figure.axes[0].texts]
    assert len(boxes) == 3
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])
