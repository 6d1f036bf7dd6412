"""Plots of how time and memory grow, on logarithmic axes with guides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_attention.visualization.sheet import COLORS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES = (("o", "-"), ("s", "--"), ("^", ":"))
_SIZE = (9.6, 4.6)  # inches
_SLOPES = (
    (1, "linear", "right"),
    (2, "quadratic", "left"),
)
_NOTE = "gray: linear (twice the size takes twice as much) and quadratic (four times)"
_LEAST = 1e3  # the values of a panel span three powers of ten, or more
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))
_GUIDE = "#9a9a9a"


def plot_growth(
    series: Sequence[Mapping[str, Any]],
    x_label: str = "size",
    title: str | None = None,
) -> Figure:
    """Plots time and memory over sizes in two panels with logarithmic axes.

    Gray guides show linear growth, where twice the size takes twice as much, and
    quadratic growth, where it takes four times as much. A curve that is parallel to a
    guide grows like it. Values of 0 are left out, since logarithmic axes cannot show
    them.

    Args:
        series: One mapping per curve. "name" is its label. "x" holds N sizes, "seconds"
            and "bytes" hold N numbers each. Curves with the same optional "group" have
            the same colour and differ in their markers.
        x_label: Label of the x-axes.
        title: A title above the figure.

    Returns:
        The `matplotlib.figure.Figure`; `figure.savefig("growth.png")` writes it.

    Raises:
        ValueError: If there is no series, its lists differ in length, a size is not
            above 0, or a value is negative or not finite.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    sizes = [128, 256, 512]
    figure = plot_growth(
        [
            {
                "name": "attention",
                "x": sizes,
                "seconds": [0.001, 0.004, 0.016],
                "bytes": [64_000, 128_000, 256_000],
            }
        ]
    )
    figure.savefig("growth.png")
    ```
    """
    if not series:
        raise ValueError("`series` must hold at least one curve. Received: none")
    curves = [_checked(entry) for entry in series]
    figure = new_figure(*_SIZE, "constrained")
    panels = figure.subplots(1, 2)
    styles = list(_looks(series))
    for ax, which, units, name in (
        (panels[0], 1, _SECONDS, "time of a call"),
        (panels[1], 2, _BYTES, "memory of a call"),
    ):
        ax.set_xscale("log")
        ax.set_yscale("log")
        for entry, curve, style in zip(series, curves, styles):
            shown = curve[which] > 0
            label = entry["name"] if which == 1 else None
            ax.plot(curve[0][shown], curve[which][shown], label=label, **style)
        _draw_guides(ax)
        _label_axes(ax, sorted({size for curve in curves for size in curve[0]}), units)
        ax.set_xlabel(x_label)
        ax.set_title(name, loc="left", fontsize=10)
    if title is not None:
        figure.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    figure.legend(
        loc="outside lower center",
        ncols=2,
        frameon=False,
        fontsize=9,
        title=_NOTE,
        title_fontsize=8,
    )
    return figure


def _looks(series: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns colour, marker and line of each curve: a colour per group."""
    groups = list(
        dict.fromkeys(entry.get("group", n) for n, entry in enumerate(series))
    )
    used = dict.fromkeys(groups, 0)
    looks = []
    for n, entry in enumerate(series):
        group = entry.get("group", n)
        marker, line = _STYLES[used[group] % len(_STYLES)]
        used[group] += 1
        color = COLORS[groups.index(group) % len(COLORS)]
        looks.append(
            {"color": color, "marker": marker, "linestyle": line, "markersize": 4.5}
        )
    return looks


def _draw_guides(ax: Axes) -> None:
    """Draws linear and quadratic growth up to the upper right corner of the data."""
    left, right = ax.get_xlim()
    low, high = ax.get_ylim()
    missing = max(1.0, (_LEAST / (high / low)) ** 0.5)  # a flat curve has to look flat
    low, high = low / missing, high * missing
    top = high * (high / low) ** 0.04
    ax.set_xlim(left, right)
    ax.set_ylim(low, high * (high / low) ** 0.12)
    for slope, label, side in _SLOPES:
        start = max(left, right * (low / top) ** (1 / slope))
        x = np.array([start, right])
        ax.plot(x, top * (x / right) ** slope, color=_GUIDE, linewidth=0.9, zorder=1)
        place = right * (start / right) ** 0.7
        ax.annotate(
            label,
            (place, top * (place / right) ** slope),
            xytext=(-4, 2) if side == "right" else (4, -9),
            textcoords="offset points",
            ha=side,
            color="#6a6a6a",
            fontsize=8,
        )


def _label_axes(ax: Axes, sizes: Sequence[float], units: Any) -> None:
    """Writes sizes and values as plain numbers, at most seven sizes."""
    ax.grid(True, which="major", color="#dddddd", linewidth=0.6)
    spread = np.log(sizes[-1] / sizes[0]) if len(sizes) > 1 else 0.0
    labelled: list[float] = []
    for size in reversed(sizes):  # not closer than a seventh of the axis
        if not labelled or np.log(labelled[-1] / size) >= spread / 7:
            labelled.append(size)
    ax.set_xticks(labelled, [f"{size:,.0f}" for size in labelled], fontsize=8)
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(lambda value, _: _with_unit(value, units))
    ax.tick_params(axis="y", labelsize=8)


def _with_unit(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Formats a power of ten with the largest unit that leaves at least 1."""
    for size, name in units:
        if value >= 0.999 * size:
            return f"{value / size:,.0f} {name}"
    size, name = units[-1]
    return f"{value / size:g} {name}"


def _checked(entry: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """Checks a series; returns x, seconds and bytes, each (N,)."""
    x, *values = (np.asarray(entry[key], float) for key in ("x", "seconds", "bytes"))
    name = entry.get("name")
    if x.ndim != 1 or not x.size or any(part.shape != x.shape for part in values):
        raise ValueError(
            "`x`, `seconds` and `bytes` of a series must have one length. Received: "
            f"shapes {[x.shape, *(part.shape for part in values)]} of {name!r}"
        )
    if not (x > 0).all():
        raise ValueError(f"`x` of a series must be above 0. Received: {x} of {name!r}")
    if not all((np.isfinite(part) & (part >= 0)).all() for part in values):
        raise ValueError(
            "`seconds` and `bytes` of a series must be finite and at least 0. "
            f"Received: one that is not, of {name!r}"
        )
    return x, *values
