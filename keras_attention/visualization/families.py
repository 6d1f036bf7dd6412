"""Family trees with the path of a relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.visualization.sheet import INK, Figure, new_plot

Relation = tuple[str, str, str]  # a person, a basic relation, and the relative

_SPOUSE, _SIDE = ("husband", "wife"), ("brother", "sister")
_KINDS = {
    **dict.fromkeys(("mother", "father"), 1),
    **dict.fromkeys(("son", "daughter"), -1),
    **dict.fromkeys((*_SPOUSE, *_SIDE), 0),
}  # the number of generations up
_COLUMN, _ROW = 1.05, 1.1  # inches
_SWEEPS = 12
_PATH, _LINE = "#b34700", "#8a94a0"


def plot_family(
    relations: Sequence[Relation],
    path: Sequence[Relation] = (),
    answer: str | None = None,
    title: str | None = None,
) -> Figure:
    """Draws a family tree, and how a relation leads from a person to a relative.

    Older generations stand higher. A double line joins a couple, and a thin line joins
    a parent and a child. There are no lines between siblings. Arrows with numbers show
    the path.

    Args:
        relations: The basic relations (person, kind, relative). The kinds are mother,
            father, husband, wife, son, daughter, brother and sister.
        path: The basic relations of a longer relation, in order.
        answer: The person that a network answered, who gets a frame: orange if the path
            ends there, red elsewhere.
        title: A title above the figure.

    Returns:
        The `matplotlib.figure.Figure`; `figure.savefig("family.png")` writes it.

    Raises:
        ValueError: If there are no relations, a kind is unknown, the generations
            contradict each other, the family is not connected, or `path` or `answer`
            names another person.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    figure = plot_family([("Ada", "mother", "Thea"), ("Thea", "brother", "Otto")])
    figure.savefig("family.png")
    ```
    """
    levels = _levels(relations)
    for person, kind, relative in path:
        if kind not in _KINDS or not {person, relative} <= set(levels):
            raise ValueError(
                "`path` must hold basic relations between members of the family. "
                f"Received: {(person, kind, relative)!r}"
            )
    if answer is not None and answer not in levels:
        raise ValueError(
            f"`answer` must be a member of the family. Received: {answer=}"
        )
    at = _positions(levels, relations)
    across = max(x for x, _ in at.values()) + 1
    height = max(levels.values()) - min(levels.values()) + 1
    figure, ax = new_plot(max(across * _COLUMN, 4.0), height * _ROW + 0.4, title)
    ax.set_axis_off()
    ax.set(xlim=(-0.7, across - 0.3), ylim=(min(levels.values()) - 0.5,
                                            max(levels.values()) + 0.5))  # fmt: skip
    _draw_lines(ax, at, relations)
    for number, (person, _, relative) in enumerate(path):
        style = {"arrowstyle": "-|>", "color": _PATH, "linewidth": 2.2,
                 "shrinkA": 12, "shrinkB": 12,
                 "connectionstyle": "arc3,rad=0.15"}  # fmt: skip
        ax.annotate("", at[relative], at[person], arrowprops=style, zorder=4)
        middle = (np.array(at[person]) + at[relative]) / 2
        along = np.array(at[relative]) - at[person]
        middle = middle + 0.11 * np.array([along[1], -along[0]])
        ax.text(*middle, str(number + 1), color="white", fontsize=8, ha="center",
                va="center", zorder=6,
                bbox={"boxstyle": "circle,pad=0.15", "color": _PATH})  # fmt: skip
    ends = {path[0][0], path[-1][2]} if path else set()
    for name, position in at.items():
        frame = _LINE
        if name == answer:
            frame = _PATH if path and name == path[-1][2] else "#d62828"
        box = {
            "boxstyle": "round,pad=0.3",
            "facecolor": "#ffe3cc" if name in ends else "white",
            "edgecolor": frame,
            "linewidth": 2.5 if name == answer else 0.8,
        }
        ax.text(*position, name, ha="center", va="center", fontsize=9, color=INK,
                zorder=5, bbox=box, parse_math=False)  # fmt: skip
    return figure


def _draw_lines(
    ax: Any, at: dict[str, tuple[float, float]], relations: Sequence[Relation]
) -> None:
    """Draws one line for each parent and child, and a double line for each couple."""
    joined: set[frozenset[str]] = set()
    for person, kind, relative in relations:
        pair = frozenset((person, relative))
        if kind in _SIDE or pair in joined:
            continue
        joined.add(pair)
        (x, y), (u, v) = at[person], at[relative]
        if kind in _SPOUSE:
            for aside in (-0.025, 0.025):
                ax.plot([x, u], [y + aside, v + aside], color=_LINE, linewidth=1.2)
        else:
            ax.plot([x, u], [y, v], color=_LINE, linewidth=0.9, zorder=1)


def _levels(relations: Sequence[Relation]) -> dict[str, int]:
    """Returns the generation of each person; older generations are higher."""
    if not relations:
        raise ValueError("`relations` must hold at least one relation. Received: none")
    joined: dict[str, list[tuple[str, int]]] = {}
    for relation in relations:
        if len(relation) != 3 or relation[1] not in _KINDS:
            raise ValueError(
                "`relations` must hold (person, kind, relative) with one of the kinds "
                f"{', '.join(_KINDS)}. Received: {relation!r}"
            )
        person, kind, relative = relation
        joined.setdefault(person, []).append((relative, _KINDS[kind]))
        joined.setdefault(relative, []).append((person, -_KINDS[kind]))
    levels = {relations[0][0]: 0}
    front = [relations[0][0]]
    while front:
        person = front.pop()
        for relative, up in joined[person]:
            level = levels[person] + up
            if relative not in levels:
                levels[relative] = level
                front.append(relative)
            elif levels[relative] != level:
                raise ValueError(
                    "`relations` must agree on the generations. Received: two "
                    f"generations for {relative!r}"
                )
    if len(levels) < len(joined):
        apart = next(person for person in joined if person not in levels)
        raise ValueError(
            "`relations` must join all people. Received: "
            f"{relations[0][0]!r} and {apart!r}, who are not joined"
        )
    return levels


def _positions(
    levels: dict[str, int], relations: Sequence[Relation]
) -> dict[str, tuple[float, float]]:
    """Returns a position for each person, near to its relatives."""
    names = list(levels)
    number = {name: n for n, name in enumerate(names)}
    near = np.zeros((len(names), len(names)))
    for person, kind, relative in relations:
        weight = 3.0 if kind in _SPOUSE else 1.0
        near[number[person], number[relative]] += weight
        near[number[relative], number[person]] += weight
    x = np.arange(len(names), dtype=float)
    rows = [
        [n for n, name in enumerate(names) if levels[name] == level]
        for level in sorted(set(levels.values()))
    ]
    for _ in range(_SWEEPS):
        pull = (near @ x + x) / (near.sum(1) + 1)
        for row in rows:
            order = sorted(row, key=lambda n: pull[n])
            wanted = pull[order]
            spread = np.arange(len(row)) - (len(row) - 1) / 2
            x[order] = np.maximum.accumulate(wanted - spread) + spread
            x[order] += (wanted - x[order]).mean()
    x -= x.min()
    return {name: (float(x[n]), float(levels[name])) for n, name in enumerate(names)}
