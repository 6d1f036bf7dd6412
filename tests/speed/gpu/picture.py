"""A plot of the rate of attention over the number of tokens, a panel for each mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from keras_attention.visualization.sheet import COLORS, Figure, new_figure

_SIZE = (9.6, 4.6)  # inches


def plot_rates(
    series: Sequence[Mapping[str, Any]],
    x_label: str = "tokens T",
    y_label: str = "TFLOP/s",
) -> Figure:
    """Plots rates over sizes.

    Args:
        series: One mapping per curve. "name" is its label, "panel" the title of its
            panel, "x" holds the sizes and "y" the rates. Curves with the same name have
            the same colour.
        x_label: Label of the x-axes.
        y_label: Label of the y-axis.

    Raises:
        ValueError: If there is no series.
        ImportError: If matplotlib is not installed.
    """
    if not series:
        raise ValueError("`series` must hold at least one curve. Received: none")
    names = list(dict.fromkeys(curve["name"] for curve in series))
    panels = list(dict.fromkeys(curve["panel"] for curve in series))
    figure = new_figure(*_SIZE, "constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for curve in series:
        ax, number = axes[panels.index(curve["panel"])], names.index(curve["name"])
        first = curve["panel"] == panels[0]
        ax.plot(
            curve["x"],
            curve["y"],
            label=curve["name"] if first else None,
            color=COLORS[number % len(COLORS)],
            marker="os^"[number // len(COLORS) % 3],
            markersize=4,
        )
    for ax, title in zip(axes, panels):
        sizes = sorted({x for curve in series for x in curve["x"]})
        ax.set_xscale("log", base=2)
        ax.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
        ax.minorticks_off()
        ax.set_ylim(bottom=0)
        ax.set_xlabel(x_label)
        ax.set_title(title, loc="left", fontsize=10)
        ax.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes[0].set_ylabel(y_label)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure
