"""A plot of wrong answers over pairs, with the size of each memory beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from keras_attention.visualization.sheet import COLORS, Figure, new_figure

_SIZE = (9.4, 4.4)  # inches
_STYLES = ("-", "--", ":")  # of curves with the same color
_LEAST = 0.01  # per cent of wrong answers; fewer are drawn here


def plot_recall(
    series: Sequence[Mapping[str, Any]],
    x_label: str = "pairs",
    state_label: str = "KiB of state",
    title: str | None = None,
) -> Figure:
    """Plots the wrong answers of each memory over the pairs, and the size of its state.

    Args:
        series: One mapping per memory. "name" is its label, "x" holds the numbers of
            pairs, "y" the shares of right answers, and "bytes" the sizes of the state.
        x_label: Label of the x-axes.
        state_label: Label of the y-axis on the right.
        title: A title above the figure.

    Raises:
        ValueError: If there is no series, or its lists differ in length.
        ImportError: If matplotlib is not installed.
    """
    if not series:
        raise ValueError("`series` must hold at least one memory. Received: none")
    figure = new_figure(*_SIZE, "constrained")
    left, right = figure.subplots(1, 2)
    if title is not None:
        figure.suptitle(title, x=0.02, ha="left", fontsize=10, fontweight="bold")
    for n, memory in enumerate(series):
        x, y, size = memory["x"], memory["y"], memory["bytes"]
        if not len(x) == len(y) == len(size):
            raise ValueError(
                "`x`, `y` and `bytes` of a series must have one length. Received: "
                f"{len(x)}, {len(y)} and {len(size)} of {memory['name']!r}"
            )
        style = {
            "color": COLORS[n % len(COLORS)],
            "linestyle": _STYLES[n // len(COLORS) % len(_STYLES)],
            "marker": "o",
            "markersize": 4,
        }
        wrong = [max(100 * (1 - share), _LEAST) for share in y]
        left.plot(x, wrong, label=memory["name"], **style)
        right.plot(x, [number / 1024 for number in size], **style)
    left.set_yscale("log")
    left.yaxis.set_major_formatter(lambda share, _: f"{share:g}")
    left.set_ylabel("wrong answers, in per cent")
    right.set_yscale("log", base=2)
    right.yaxis.set_major_formatter(lambda size, _: f"{size:g}")
    right.set_ylabel(state_label)
    for ax in (left, right):
        ax.set_xscale("log", base=2)
        ax.set_xticks(series[0]["x"], [f"{pairs}" for pairs in series[0]["x"]])
        ax.minorticks_off()
        ax.set_xlabel(x_label)
        ax.grid(True, which="major", color="#dddddd", linewidth=0.6)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure
