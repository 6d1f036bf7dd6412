"""The view of a DNC that follows a route: its memory step by step.

Shapes: T steps, M memory slots.
"""

from __future__ import annotations

from typing import Any

from keras_attention.explore import examples
from keras_attention.explore.views import texts
from keras_attention.explore.views.networks import network
from keras_attention.presets.preprocessors.routes import BETWEEN
from keras_attention.visualization import View, memory_view

SLOTS = 16  # that are shown
MOST_EDGES = 60
_TITLE = "A computer that learned to use its memory"


def look(edges: str, question: str, model: Any = None) -> View:
    """Lets a DNC follow a route in a graph, and shows its memory at each step.

    An edge is a line of a place, a line and the next place; a route is a place and the
    lines to take. "|" stands between the names.

    Raises:
        InputError: an edge is not three names, the question is not a place and lines,
            or there are too many edges.
    """
    named = [_names(line) for line in (edges or "").splitlines() if line.strip()]
    route = _names(question or "")
    _check(named, route)
    model = network(examples.ROUTE_PRESET) if model is None else model
    tools = model.preprocessor
    _check_route(named, route, tools.max_length)
    answer, trace = model.answer(named, route, return_attention=True)
    places = answer.split(BETWEEN)
    start, *lines = route
    described = list(dict.fromkeys(named))
    steps = [f"{place} –{line}→ {end}" for place, line, end in described]
    steps += [f"{start} –{lines[0]}→ ?", *(f"–{line}→ ?" for line in lines[1:])]
    outputs = [""] * len(steps) + places
    steps += ["answer"] * len(lines)
    walked = start + "".join(f" –{ln}→ {end}" for ln, end in zip(lines, places))
    return memory_view(
        trace,
        steps=steps,
        outputs=outputs,
        slots=SLOTS,
        length=len(steps),
        title=_TITLE,
        caption=(
            "The network reads the edges one by one and writes them to its memory. "
            "Then it reads the question, and follows the route in its memory. Its "
            f"answer is {walked}."
        ),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split("|"))


def _check(edges: list[tuple[str, ...]], route: tuple[str, ...]) -> None:
    if not edges:
        raise texts.InputError("Please write edges first, such as: Bank | east | Tower")
    if len(edges) > MOST_EDGES:
        raise texts.InputError(
            f"Please write fewer edges: the network reads at most {MOST_EDGES}, and "
            f"there are {len(edges):,}."
        )
    for edge in edges:
        if len(edge) != 3 or not all(edge):
            line = " | ".join(edge)[:80]
            raise texts.InputError(
                "An edge is a place, a line and the next place with | between them, "
                f"such as: Bank | east | Tower. You wrote: {line}"
            )
    if len(route) < 2 or not all(route):
        raise texts.InputError(
            "A route is a place and the lines to take with | between them, such as: "
            f"Bank | east | north. You wrote: {' | '.join(route)[:80] or 'nothing'}"
        )


def _check_route(
    edges: list[tuple[str, ...]], route: tuple[str, ...], most: int
) -> None:
    """Checks the names before the network does, to say it in words for readers."""
    ends: dict[tuple[str, str], str] = {}
    for place, line, end in edges:
        if ends.setdefault((place, line), end) != end:
            raise texts.InputError(
                f"Please give one of two lines another name: {line[:40]} leads from "
                f"{place[:40]} to {ends[place, line][:40]} and to {end[:40]}."
            )
    start, *taken = route
    if len(taken) > most:
        raise texts.InputError(
            f"Please shorten the route: the network follows at most {most} lines, and "
            f"there are {len(taken):,}."
        )
    if not any(start in (place, end) for place, _, end in edges):
        raise texts.InputError(
            "A route must begin with a place of the edges, such as "
            f"{edges[0][0][:40]}. You wrote: {start[:40]}"
        )
    for line in taken:
        if not any(line == name for _, name, _ in edges):
            raise texts.InputError(
                "A route must take lines of the edges, such as "
                f"{edges[0][1][:40]}. You wrote: {line[:40]}"
            )
