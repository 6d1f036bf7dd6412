"""The picture of accuracy and memory over the length of a story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from keras_attention.visualization.sheet import Figure, new_figure

_SIZE = (9.6, 5.2)  # inches
_MARKERS = "osD^vP"


def plot_lengths(
    series: Sequence[Mapping[str, Any]],
    x_label: str = "tokens of a story",
    y_labels: Sequence[str] = ("accuracy", "memory per story, MB"),
    title: str | None = None,
) -> Figure:
    """Plots an accuracy and a size over a length, side by side.

    Args:
        series: One mapping per curve. "name" is its label. "x" holds N lengths, "y" N
            shares from 0 to 1, and "size" N sizes above 0, or None to draw none.
        x_label: Label of both x-axes.
        y_labels: Labels of the two y-axes.
        title: A title above the figure.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no series.
        ImportError: If matplotlib is not installed.
    """
    if not series:
        raise ValueError("`series` must hold at least one curve. Received: none")
    figure = new_figure(*_SIZE, "constrained")
    if title is not None:
        figure.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    left, right = figure.subplots(1, 2)
    for n, curve in enumerate(series):
        style = {
            "color": f"C{n % 10}",
            "marker": _MARKERS[n % len(_MARKERS)],
            "markersize": 4.5,
            "label": curve["name"],
        }
        left.plot(curve["x"], curve["y"], **style)
        if curve["size"] is not None:
            right.plot(curve["x"], curve["size"], **{**style, "label": None})
    right.set_yscale("log")
    left.set_ylim(0, 1.03)
    left.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    for ax, label in zip((left, right), y_labels):
        ax.set_xscale("log")
        ax.set_xlabel(x_label)
        ax.set_ylabel(label)
        ax.grid(True, which="major", color="#dddddd", linewidth=0.6)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure
