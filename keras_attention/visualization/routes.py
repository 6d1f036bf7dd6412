"""Maps of a network of stations and lines with a route on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.visualization.sheet import INK, MUTED, Figure, new_plot, text_width

Edge = tuple[str, str, str]  # start, line, end

_WIDTH = 9.0  # inches
_TRUE, _RIGHT, _WRONG = "#f2c14e", "#1a1a1a", "#d62828"
_NAME_SIZE = 7.5
_GRAY = "#9aa5b1"
_APART = 0.008  # distance of parallel lines, as a share of the larger extent


def plot_route(
    stations: Sequence[str],
    positions: np.ndarray,
    edges: Sequence[Edge],
    route: Sequence[Edge] = (),
    answer: Sequence[Edge] | None = None,
    colors: dict[str, str] | None = None,
    title: str | None = None,
) -> Figure:
    """Draws a map with the true route and the route that a network answered.

    The true route is a wide yellow band. Arrows with numbers show the answered edges:
    black where an edge has the same number in the true route, red elsewhere. An
    answered edge is dashed if the map does not have it. Answers that do not name two
    stations of the map cannot be drawn, so a note counts them.

    Args:
        stations: P unique names.
        positions: (P, 2), longitude and latitude in degrees.
        edges: The edges of the map, as (start, line, end), tuples or lists.
        route: The edges of the true route.
        answer: The answered edges; None draws no answer.
        colors: The color of each line by name. Other lines are gray.
        title: A title above the figure.

    Returns:
        The `matplotlib.figure.Figure`; `figure.savefig("route.png")` writes it.

    Raises:
        ValueError: If the stations are not unique, the positions do not fit or are not
            finite, or `edges` or `route` name a station that is not there.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    network = graphs.load_underground()
    figure = plot_route(network.stations, network.positions, network.edges)
    figure.savefig("map.png")
    ```
    """
    names = [str(name) for name in stations]
    scaled = _scaled(names, positions)
    at = dict(zip(names, scaled))
    edges, route = _tuples(edges), _tuples(route)
    for argument, links in (("edges", edges), ("route", route)):
        for edge in links:
            if len(edge) != 3 or edge[0] not in at or edge[2] not in at:
                raise ValueError(
                    f"`{argument}` must hold (start, line, end) with stations of the "
                    f"map. Received: {edge!r}"
                )
    low, high = scaled.min(0), scaled.max(0)
    extent = np.maximum(high - low, 1e-9)
    height = float(np.clip(_WIDTH * extent[1] / extent[0], 3.0, 12.0))
    figure, ax = new_plot(_WIDTH, height + 0.6, title)
    ax.set_axis_off()
    ax.set_aspect("equal")
    ax.margins(0.08)
    step = _APART * extent.max()
    _draw_lines(ax, at, edges, colors or {}, step)
    for start, _, end in route:
        x, y = np.stack([at[start], at[end]]).T
        ax.plot(x, y, color=_TRUE, linewidth=11, alpha=0.55, solid_capstyle="round",
                zorder=2, label="route")  # fmt: skip
    notes = _draw_answer(ax, at, set(edges), route, answer)
    ax.scatter(*scaled.T, s=26, color="white", edgecolors=INK, zorder=5)
    inch = 1.2 * float((extent / [_WIDTH, height]).max())  # with margins
    _draw_names(ax, at, inch)
    if notes:
        ax.text(0, 0, notes, transform=ax.transAxes, fontsize=8.5, color=MUTED)
    return figure


def _draw_names(ax: Any, at: dict[str, np.ndarray], inch: float) -> None:
    """Writes the names right or left of their stations; `inch` is in units of `at`."""
    taken: list[tuple[float, float, float, float]] = []  # left, right, low, high
    high, gap = 0.13 * inch, 0.07 * inch
    for name, (x, y) in at.items():
        width = text_width(name, _NAME_SIZE) * inch
        boxes = [
            (left, left + width, low, low + high)
            for low in (y + gap / 2, y - gap / 2 - high)
            for left in (x + gap, x - gap - width)
        ]
        hits = [
            sum(
                box[0] < b and a < box[1] and box[2] < d and c < box[3]
                for a, b, c, d in taken
            )
            + sum(box[0] < u < box[1] and box[2] < v < box[3] for u, v in at.values())
            for box in boxes
        ]
        best = int(np.argmin(hits))
        taken.append(boxes[best])
        across, up = (1, -1)[best % 2], (1, -1)[best // 2]
        ax.annotate(name, (x, y), (5 * across, 4 * up), textcoords="offset points",
                    ha="left" if across > 0 else "right",
                    va="bottom" if up > 0 else "top", fontsize=_NAME_SIZE, color=INK,
                    zorder=6, parse_math=False)  # fmt: skip


def _scaled(names: list[str], positions: Any) -> np.ndarray:
    """Returns the positions with equal scales of both axes."""
    degrees = np.asarray(positions, float)
    if degrees.shape != (len(names), 2) or not np.isfinite(degrees).all() or not names:
        raise ValueError(
            "`positions` must be finite numbers (P, 2), a row for each station. "
            f"Received: positions.shape={degrees.shape}, {len(names)} stations"
        )
    if len(set(names)) < len(names):
        again = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            "`stations` must be unique names. "
            f"Received: {again!r}, {names.count(again)} times"
        )
    shrunk = np.cos(np.radians(degrees[:, 1].mean()))  # of a degree of longitude
    return degrees * [shrunk, 1.0]


def _tuples(edges: Sequence[Any]) -> list[Any]:
    return [tuple(edge) for edge in edges]


def _draw_lines(
    ax: Any,
    at: dict[str, np.ndarray],
    edges: Sequence[Edge],
    colors: dict[str, str],
    step: float,
) -> None:
    """Draws the lines between two stations side by side."""
    between: dict[tuple[str, str], dict[str, None]] = {}
    for start, line, end in edges:
        pair = (start, end) if start < end else (end, start)
        between.setdefault(pair, {})[colors.get(line, _GRAY)] = None
    for (start, end), shades in between.items():
        along = at[end] - at[start]
        aside = np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-9)
        for number, color in enumerate(shades):
            shift = (number - (len(shades) - 1) / 2) * step * aside
            x, y = np.stack([at[start] + shift, at[end] + shift]).T
            ax.plot(x, y, color=color, linewidth=1.6, alpha=0.75, zorder=3)


def _draw_answer(
    ax: Any,
    at: dict[str, np.ndarray],
    edges: set[Edge],
    route: list[Edge],
    answer: Sequence[Edge] | None,
) -> str:
    """Draws the answered edges, and returns a note."""
    if answer is None:
        return ""
    taken: dict[tuple[str, str], int] = {}  # how often a pair was drawn
    unknown = right = 0
    for number, edge in enumerate(answer):
        is_right = number < len(route) and tuple(edge) == tuple(route[number])
        right += is_right
        start, _, end = edge
        if start not in at or end not in at or start == end:
            unknown += 1
            continue
        again = taken.get((start, end), 0)
        taken[start, end] = again + 1
        color = _RIGHT if is_right else _WRONG
        style = {
            "arrowstyle": "-|>",
            "color": color,
            "linewidth": 2.0,
            "linestyle": "-" if tuple(edge) in edges else "--",
            "shrinkA": 5,
            "shrinkB": 5,
            "connectionstyle": f"arc3,rad={0.12 + 0.1 * again}",
        }
        ax.annotate("", at[end], at[start], arrowprops=style, zorder=7)
        along = at[end] - at[start]
        bow = (0.06 + 0.05 * again) * np.array([along[1], -along[0]])
        middle = (at[start] + at[end]) / 2 + bow
        ax.text(*middle, str(number + 1), color="white", fontsize=7.5, ha="center",
                va="center", zorder=8,
                bbox={"boxstyle": "circle,pad=0.15", "color": color})  # fmt: skip
    note = f"yellow: the route; arrows: the answer, {right} of {len(route)} edges right"
    return note + (f"; {unknown} edges name no two stations" if unknown else "")
