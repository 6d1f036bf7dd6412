"""Line plots of shares, such as accuracy, over sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_attention.visualization.sheet import COLORS, Figure, new_plot

_SIZE = (7.2, 4.4)  # inches


def plot_curves(
    series: Sequence[Mapping[str, Any]],
    x_label: str = "length",
    y_label: str = "accuracy",
    title: str | None = None,
) -> Figure:
    """Plots shares over sizes on a base-2 logarithmic axis.

    Args:
        series: One mapping per curve. "name" is its label. "x" holds N positive sizes,
            and "y" holds N shares from 0 to 1. The optional "low" and "high" bound a
            shaded band. A constant curve, such as chance level, is drawn as a dotted
            gray line.
        x_label: Label of the x-axis.
        y_label: Label of the y-axis.
        title: A title above the figure.

    Returns:
        The `matplotlib.figure.Figure`; `figure.savefig("curves.png")` writes it.

    Raises:
        ValueError: If there is no series, its lists differ in length, a size is not
            above 0, or a share is not from 0 to 1.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    figure = plot_curves([{"name": "attention", "x": [1, 2, 4], "y": [1.0, 1.0, 0.99]}])
    figure.savefig("curves.png")
    ```
    """
    if not series:
        raise ValueError("`series` must hold at least one curve. Received: none")
    curves = [_checked(curve) for curve in series]
    figure, ax = new_plot(*_SIZE, title)
    ax.set_xscale("log", base=2)
    color = iter(COLORS * len(curves))
    for curve, (x, y, low, high) in zip(series, curves):
        if len(y) > 1 and np.ptp(y) == 0 and "low" not in curve:
            ax.plot(x, y, color="#777777", linestyle=":", label=curve["name"])
            continue
        shade = next(color)
        ax.plot(x, y, color=shade, marker="o", markersize=4.5, label=curve["name"])
        ax.fill_between(x, low, high, color=shade, alpha=0.18, linewidth=0)
    sizes = sorted({size for x, *_ in curves for size in x})
    ax.set_xticks(sizes, [f"{size:g}" for size in sizes])
    ax.minorticks_off()
    ax.set_ylim(0, 1.03)
    ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    ax.grid(True, which="major", color="#dddddd", linewidth=0.6)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _checked(curve: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """Checks a series; returns x, y and the two bounds of the band, each (N,)."""
    x, y = (np.asarray(curve[name], float) for name in ("x", "y"))
    low, high = (np.asarray(curve.get(name, y), float) for name in ("low", "high"))
    name = curve.get("name")
    if x.ndim != 1 or not x.size or not x.shape == y.shape == low.shape == high.shape:
        raise ValueError(
            "`x`, `y`, `low` and `high` of a series must have one length. Received: "
            f"shapes {x.shape}, {y.shape}, {low.shape} and {high.shape} of {name!r}"
        )
    if not (x > 0).all():
        raise ValueError(f"`x` of a series must be above 0. Received: {x} of {name!r}")
    if not all(((part >= 0) & (part <= 1)).all() for part in (y, low, high)):
        raise ValueError(
            "`y`, `low` and `high` of a series must be from 0 to 1. Received: one that "
            f"is not, of {name!r}"
        )
    return x, y, low, high
