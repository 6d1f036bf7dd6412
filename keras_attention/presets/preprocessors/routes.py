"""Edges of a graph and routes along them, for a `DNCNetwork`.

Shapes: E edges, S edges of a route, T steps of a sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.datasets.graphs import encoding, maps
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.models.base.preset_folder import Preprocessor
from keras_attention.presets.preprocessors import running
from keras_attention.presets.preprocessors.sentences import check_lines, names_of

ROUNDING = 16  # T is a multiple of this number, so that few lengths are compiled
BETWEEN = " | "


@export
class RoutePreprocessor(Preprocessor):
    """Turns the edges of a graph and a route into the inputs of a `DNCNetwork`.

    An edge is a text of a place, a line and the next place with `|` between them, such
    as "Bank | Central east | Holborn", or a tuple of the three. It leads in one
    direction. A question is a place and the lines to take from there, such as "Bank |
    Central east | Circle north". The answer has the places that the route reaches,
    one for each line, with " | " between them.

    All names are free: each gets a random number from 0 to 999, which is the same in
    each call. The network reads the edges in the given order, and then the question; it
    writes a place for each line (the task "traversal" of `datasets.graphs`).

    Args:
        max_edges: the maximum number E of edges.
        max_length: the maximum number S of edges of a route.

    Raises:
        ValueError: a size is below 1.
    """

    def __init__(self, max_edges: int, max_length: int) -> None:
        self.max_edges = positive("max_edges", max_edges)
        self.max_length = positive("max_length", max_length)

    def encode(self, sentences: Sequence[Any], question: Any) -> dict[str, np.ndarray]:
        """Returns "inputs", float32 (1, T, 92), and "answer_mask", booleans (1, T).

        Args:
            sentences: the edges. Edges that are repeated count once.
            question: the start and the lines to take.

        Raises:
            ValueError: there are no edges or too many, an edge is not three names, or a
                line leaves a place twice; or the question is not a place and lines of
                the edges, or has too many lines.
        """
        edges = self._edges(sentences)
        places, lines = _labels(edges)
        start, *taken = self._route(question, places, lines)
        described, length = len(edges), len(taken)
        steps = -(-(described + 2 * length) // ROUNDING) * ROUNDING
        read = np.full((1, steps, 3), maps.NONE, np.int16)
        for step, (place, line, end) in enumerate(edges):
            read[0, step] = places[place], lines[line], places[end]
        asked, answered = described + length, described + 2 * length
        read[0, described, 0] = places[start]
        read[0, described:asked, 1] = [lines[line] for line in taken]
        answer_mask = np.zeros((1, steps), bool)
        answer_mask[0, asked:answered] = True
        inputs = np.zeros((1, steps, encoding.INPUTS), np.float32)
        inputs[..., : encoding.TRIPLE] = encoding.encode(read)
        inputs[0, [0, described, asked], encoding.NEW_PHASE] = 1
        inputs[..., encoding.ANSWER] = answer_mask
        return {"inputs": inputs, "answer_mask": answer_mask}

    def decode(self, logits: Any, sentences: Sequence[Any]) -> list[str]:
        """Returns the likeliest place of the edges for each row of logits (S, 90)."""
        return self._decode(logits, sentences)[0]

    def answer(self, model: Any, sentences: Any, question: Any, **wanted: bool) -> Any:
        """Returns the places that the route reaches, with " | " between them.

        The score is the product of their probabilities, and the attention the trace.
        """
        inputs = self.encode(sentences, question)
        logits = running.run(model, inputs)[inputs["answer_mask"]]
        places, score = self._decode(logits, sentences)
        running.flag(*mistakes(self._edges(sentences), names_of(question), places))
        answer = BETWEEN.join(places)
        return running.packed(answer, score, lambda: model.trace(inputs), **wanted)

    def _decode(self, logits: Any, sentences: Sequence[Any]) -> tuple[list[str], float]:
        """Returns the likeliest places, and the product of their probabilities."""
        places, _ = _labels(self._edges(sentences))
        digits = running.probabilities(np.asarray(logits)[:, -30:].reshape(-1, 3, 10))
        names, labels = list(places), np.array([*places.values()])
        each = labels[:, None] // [100, 10, 1] % 10  # (N, 3)
        scores = digits[:, np.arange(3), each].prod(-1)  # (S, N)
        shares = scores / scores.sum(-1, keepdims=True)
        return [names[n] for n in shares.argmax(-1)], float(shares.max(-1).prod())

    def _edges(self, sentences: Sequence[Any]) -> list[tuple[str, str, str]]:
        check_lines(sentences, "edge")
        edges: dict[tuple[str, str, str], None] = {}
        ends: dict[tuple[str, str], str] = {}
        for i, edge in enumerate(sentences):
            names = names_of(edge)
            if len(names) != 3 or not all(names) or names[0] == names[2]:
                raise ValueError(
                    f"`sentences[{i}]` must be an edge: a place, a line and another "
                    "place with '|' between them. "
                    f"Received: sentences[{i}]={edge!r}"
                )
            place, line, end = names
            if ends.setdefault((place, line), end) != end:
                raise ValueError(
                    "A line must leave a place once: give one of the two another name. "
                    f"Received: sentences[{i}]={edge!r}, and {line!r} also leads from "
                    f"{place!r} to {ends[place, line]!r}"
                )
            edges[place, line, end] = None
        if len(edges) > self.max_edges:
            raise ValueError(
                f"`sentences` must have at most {self.max_edges} edges. "
                f"Received: {len(edges)} edges"
            )
        return list(edges)

    def _route(
        self, question: Any, places: dict[str, int], lines: dict[str, int]
    ) -> list[str]:
        names = names_of(question)
        if len(names) < 2 or not all(names):
            raise ValueError(
                "`question` must be a place and at least one line: a text with '|' "
                "between them, or a tuple; a list is several questions. "
                f"Received: question={question!r}"
            )
        start, *taken = names
        if len(taken) > self.max_length:
            raise ValueError(
                f"`question` must have at most {self.max_length} lines. "
                f"Received: {len(taken)} lines"
            )
        if start not in places:
            raise ValueError(
                "`question` must begin with a place of the edges: "
                f"{', '.join(places)}. Received: {start!r}"
            )
        for line in taken:
            if line not in lines:
                raise ValueError(
                    f"`question` must have lines of the edges: {', '.join(lines)}. "
                    f"Received: {line!r}"
                )
        return names


def mistakes(
    edges: Sequence[tuple[str, ...]], route: Sequence[str], places: Sequence[str]
) -> list[str]:
    """Returns why the places of an answer are not those of the route, if so."""
    ends = {(place, line): end for place, line, end in edges}
    here, *lines = route
    for line, answer in zip(lines, places):
        if (here, line) not in ends:
            return [f"{line} does not leave {here}, so there is no right answer."]
        end = ends[here, line]
        if answer != end:
            return [f"The answer is wrong: {line} leads from {here} to {end}."]
        here = end
    return []


def _labels(
    edges: Sequence[tuple[str, str, str]],
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns a number for each place and for each line."""
    random = np.random.default_rng(0)
    places = dict.fromkeys(name for place, _, end in edges for name in (place, end))
    lines = dict.fromkeys(line for _, line, _ in edges)
    numbered = []
    for names in (places, lines):
        labels = random.permutation(maps.LABELS)[: len(names)]
        numbered.append(dict(zip(names, labels.tolist())))
    return numbered[0], numbered[1]
