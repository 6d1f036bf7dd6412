"""Plots of memory capacity: measured points over theoretical curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_attention.visualization.sheet import COLORS, Figure, new_plot

_SIZE = (7.2, 4.4)  # inches


def plot_capacity(
    series: Sequence[Mapping[str, Any]],
    x_label: str = "patterns stored",
    y_label: str = "wrong bits after one update",
    title: str | None = None,
) -> Figure:
    """Plots measured points with error bars over curves, on logarithmic axes.

    Points with the value 0 are left out, since logarithmic axes cannot show them.

    Args:
        series: One mapping per memory. "name" is its label. "x" and "y" are N points.
            The optional "error" holds their standard errors. The optional "curve_x" and
            "curve_y" hold the theoretical curve.
        x_label: Label of the x-axis.
        y_label: Label of the y-axis.
        title: A title above the figure.

    Returns:
        The `matplotlib.figure.Figure`; `figure.savefig("capacity.png")` writes it.

    Raises:
        ValueError: If there is no series, or points or curves differ in length.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    figure = plot_capacity([{"name": "classical", "x": [10, 20], "y": [0.001, 0.012]}])
    figure.savefig("capacity.png")
    ```
    """
    if not series:
        raise ValueError("`series` must hold at least one memory. Received: none")
    figure, ax = new_plot(*_SIZE, title)
    ax.set_xscale("log")
    ax.set_yscale("log")
    for n, points in enumerate(series):
        color = COLORS[n % len(COLORS)]
        if "curve_x" in points:
            ax.plot(*_pair(points, "curve_x", "curve_y"), color=color, linewidth=1.2)
        x, y = _pair(points, "x", "y")
        error = np.asarray(points.get("error", np.zeros_like(y)), float)
        positive = y > 0
        ax.errorbar(
            x[positive],
            y[positive],
            yerror(y[positive], error[positive]),
            fmt="o",
            markersize=4.5,
            color=color,
            label=points["name"],
        )
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    ax.grid(True, which="major", color="#dddddd", linewidth=0.6)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def yerror(y: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Returns the lengths of the lower and upper error bars, (2, N).

    Lower bars are shortened so that they do not reach 0.
    """
    return np.stack([np.minimum(error, 0.9 * y), error])


def _pair(points: Mapping[str, Any], *names: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = (np.asarray(points[name], float) for name in names)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(
            f"`{names[0]}` and `{names[1]}` of a series must have one length. "
            f"Received: shapes {x.shape} and {y.shape} of {points.get('name')!r}"
        )
    return x, y
