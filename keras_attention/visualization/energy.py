"""Figures of Hopfield retrievals: states at each step and their energy.

Lengths are in inches, font sizes in points. Shapes: N retrievals, K steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.visualization.sheet import COLORS, Figure, new_figure

_COLORS = (*COLORS, "#a8871f", "#5f5f5f")
_STYLES = ("-", "--", "-.", ":")
_SIDE = 1.05  # longer side of a panel
_LABEL = 1.75  # label area left of a row
_CURVES = 2.3  # height of the curves
_NOTE = "E: the energy, which no step makes more."
_NOTE_SIZES = "k: how many of the stored patterns hold 90 % of the weight."
_MOVES = 1e-3  # smallest visible step, as a share of a curve's range


def plot_energy(
    states: Any,
    energies: Any,
    names: Sequence[str],
    sizes: Any = None,
    targets: Any = None,
    shown: Sequence[int] | None = None,
    title: str | None = None,
) -> Figure:
    """Draws the states of Hopfield retrievals and their energy at each step.

    Each row shows one retrieval, for example for one value of β: the query, selected
    steps and the target, as gray images with their energy below. A plot at the bottom
    shows the energy at every step.

    Args:
        states: Array (N, K + 1, rows, columns) of any numbers: the query and the state
            after each of K steps, as images. The smallest number is black. A
            `Trajectory` has the step axis first, (K + 1, N, D); see the example.
        energies: Array (N, K + 1), the energy of each state. A `Trajectory` has (K + 1,
            N).
        names: N strings, the name of each retrieval.
        sizes: Array (N, K + 1), the metastable size of each state, that is, the number
            of patterns that the state mixes. A second plot shows the sizes.
        targets: Array (N, rows, columns), or (rows, columns) for all retrievals: the
            target images, drawn in the last column.
        shown: Indices of the states to draw: 0 is the query, -1 the last state.
            Defaults to 0, 1, 2 and the last state, as far as they exist.
        title: A title above the figure.

    Returns:
        The `matplotlib.figure.Figure`; `figure.savefig("energy.png")` writes it.

    Raises:
        ValueError: If the shapes do not match, a number is not finite, or `shown` has
            an invalid index.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    import numpy as np

    from keras_attention.models import AssociativeMemory
    from keras_attention.visualization import plot_energy

    patterns = np.random.default_rng(0).choice([-1.0, 1.0], (5, 12))  # (S, D)
    memory = AssociativeMemory(beta=0.5)
    memory.store(patterns)
    queries = patterns[:2] * (np.arange(12) < 8)  # (N, D): the last row is hidden

    _, way = memory.retrieve(queries, return_trajectory=True)
    states = way.states.transpose(1, 0, 2).reshape(2, -1, 3, 4)  # of 3 rows, 4 columns
    figure = plot_energy(states, way.energies.T, ["first", "second"])
    figure.savefig("energy.png")
    ```
    """
    states = _finite("states", states)
    if states.ndim != 4 or 0 in states.shape:
        raise ValueError(
            "`states` must be an array (N, K + 1, rows, columns), none of them 0. "
            f"Received: states.shape={states.shape}"
        )
    energies = _along("energies", energies, states)
    sizes = None if sizes is None else _along("sizes", sizes, states)
    if targets is not None:
        targets = _targets(targets, states)
    if isinstance(names, str) or len(names) != len(states):
        raise ValueError(
            f"`names` must hold a string for each of {len(states)} retrieval(s). "
            f"Received: names={names!r}"
        )
    steps = _steps(shown, states.shape[1])
    across = len(steps) + (targets is not None)
    panel = [_SIDE * n / max(states.shape[2:]) for n in states.shape[2:]]
    height, width = len(states) * (panel[0] + 0.4), across * (panel[1] + 0.2) + _LABEL
    size = max(width, 6.4), height + _CURVES + 0.9
    figure = new_figure(*size, "constrained")
    if title is not None:
        figure.suptitle(title, size=11, weight="bold", parse_math=False)
    halves: Any = figure.subfigures(2, 1, height_ratios=(height, _CURVES + 0.5))
    above, below = halves
    _draw_states(above, states, energies, list(names), sizes, targets, steps)
    _draw_curves(below, energies, list(names), sizes)
    return figure


def _draw_states(
    figure: Any,
    states: np.ndarray,
    energies: np.ndarray,
    names: list[str],
    sizes: np.ndarray | None,
    targets: np.ndarray | None,
    steps: list[int],
) -> None:
    everything = [states] if targets is None else [states, targets]
    gray = {
        "cmap": "gray",
        "vmin": min(x.min() for x in everything),
        "vmax": max(x.max() for x in everything),
    }
    across = len(steps) + (targets is not None)
    axes = figure.subplots(len(states), across, squeeze=False)
    for r, line in enumerate(axes):
        for n, ax in enumerate(line):
            ax.set_xticks([])
            ax.set_yticks([])
            is_target = n == len(steps)
            if r == 0:
                last = states.shape[1] - 1
                heading = "looked for" if is_target else _heading(steps[n], last)
                ax.set_title(heading, size=10)
            if targets is not None and is_target:
                ax.imshow(targets[r], **gray)
                continue
            ax.imshow(states[r, steps[n]], **gray)
            text = f"E = {energies[r, steps[n]]:.3g}"
            if sizes is not None:
                text += f"\nk = {sizes[r, steps[n]]:.0f}"
            ax.set_xlabel(text, size=8.5, labelpad=3)
        line[0].set_ylabel(
            names[r],
            rotation=0,
            ha="right",
            va="center",
            labelpad=10,
            size=10,
            color=_COLORS[r % len(_COLORS)],
            parse_math=False,
        )


def _draw_curves(
    figure: Any, energies: np.ndarray, names: list[str], sizes: np.ndarray | None
) -> None:
    curves = [("energy E", energies)]
    notes = _NOTE
    if sizes is not None:
        curves.append(("patterns k", sizes))
        notes += "\n" + _NOTE_SIZES
    axes = figure.subplots(1, len(curves), squeeze=False)[0]
    last = max(_last_move(values) for _, values in curves)
    for ax, (name, values) in zip(axes, curves):
        for r, line in enumerate(values):
            ax.plot(
                line[: last + 1],
                _STYLES[r % len(_STYLES)],
                color=_COLORS[r % len(_COLORS)],
                marker="o",
                markersize=3,
                label=names[r].replace("\n", " "),
            )
        ax.set_xlabel("step", size=9)
        ax.set_title(name, size=10, loc="left")
        ax.locator_params(axis="x", integer=True)
        ax.grid(True, color="#dddddd", linewidth=0.6)
    if sizes is not None:
        axes[1].set_yscale("log")
        axes[1].yaxis.set_major_formatter("{x:.0f}")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=2,
        frameon=False,
        fontsize=9,
        title=notes,
        title_fontsize=9,
    )


def _last_move(values: np.ndarray) -> int:
    """Returns the step after the last visible change in any row of (N, K + 1)."""
    moves = np.abs(np.diff(values)) > _MOVES * np.ptp(values)  # (N, K)
    seen = np.flatnonzero(moves.any(0))
    return min(int(seen[-1]) + 2, values.shape[1] - 1) if seen.size else 1


def _heading(step: int, last: int) -> str:
    if step == 0:
        return "query"
    return f"step {step}" if step < last else f"end (step {step})"


def _finite(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values, dtype="float64")
    wrong = np.sum(~np.isfinite(array))
    if wrong:
        raise ValueError(
            f"`{name}` must hold finite numbers. "
            f"Received: {wrong} of {array.size} that are not"
        )
    return array


def _along(name: str, values: Any, states: np.ndarray) -> np.ndarray:
    array = _finite(name, values)
    if array.shape != states.shape[:2]:
        raise ValueError(
            f"`{name}` must have a number for each state, {states.shape[:2]}. "
            f"Received: {name}.shape={array.shape}"
        )
    return array


def _targets(targets: Any, states: np.ndarray) -> np.ndarray:
    array = _finite("targets", targets)
    shape = (len(states), *states.shape[2:])
    if array.shape not in (shape, shape[1:]):
        raise ValueError(
            f"`targets` must be {shape}, or {shape[1:]} for all. "
            f"Received: targets.shape={array.shape}"
        )
    return np.broadcast_to(array, shape)


def _steps(shown: Sequence[int] | None, count: int) -> list[int]:
    if shown is None:
        return sorted({min(step, count - 1) for step in (0, 1, 2, count)})
    steps = [int(step) for step in shown]
    if not steps or any(not -count <= step < count for step in steps):
        raise ValueError(
            f"`shown` must name states, from {-count} to {count - 1}. "
            f"Received: shown={list(shown)}"
        )
    return [step % count for step in steps]
