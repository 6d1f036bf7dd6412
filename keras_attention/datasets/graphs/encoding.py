"""Triples of labels as digits, and a question as a sequence of triples.

A label, 0 to 999, is three digits, each one-hot: 30 numbers, all zero where it is left
blank. A triple (source, edge, destination) is 90. Two more channels of the inputs tell
that a new phase begins, and that an answer is asked for.
"""

import numpy as np

from keras_attention.datasets.graphs.maps import LABELS, NONE, Graphs
from keras_attention.datasets.ragged import places, steps_for

TRIPLE = 90
INPUTS = TRIPLE + 2
NEW_PHASE, ANSWER = TRIPLE, TRIPLE + 1  # the two channels behind a triple


def _codes() -> np.ndarray:
    digits = np.arange(LABELS)[:, None] // [100, 10, 1] % 10  # (1000, 3)
    code = np.eye(10, dtype=np.float32)[digits].reshape(LABELS, 30)
    return np.concatenate([code, np.zeros((1, 30), np.float32)])  # the last is -1


_CODES = _codes()


def encode(triples: np.ndarray) -> np.ndarray:
    """Triples of labels, (..., 3) ints with -1 for blank, to (..., 90) float32.

    Example:
        ```python
        encode(np.array([[417, 3, -1]])).nonzero()[1]  # [4, 11, 27, 30, 40, 53]
        ```
    """
    return _CODES[triples].reshape(*triples.shape[:-1], TRIPLE)


def decode(scores: np.ndarray) -> np.ndarray:
    """What a network answers: (..., 90) scores to (..., 3) labels, digit by digit."""
    digits = scores.reshape(*scores.shape[:-1], 3, 3, 10).argmax(-1)
    return (digits * [100, 10, 1]).sum(-1).astype(np.int16)


class Sequences:
    """N sequences of triples in the making: what is read, what is to be answered.

    It starts with the phase of description: every triple of the graph in random order.

    Args:
        graphs: N graphs.
        random: Draws the order.
        following: (N,) how many steps come after the description.
        steps: T, or None for as many as the longest needs.
    """

    def __init__(
        self,
        graphs: Graphs,
        random: np.random.Generator,
        following: np.ndarray,
        steps: int | None,
    ) -> None:
        count, width = graphs.nodes.shape
        ends = graphs.ends.reshape(count, -1)  # (N, P K)
        is_edge = ends != NONE
        described = is_edge.sum(1)
        samples = random.random(ends.shape, np.float32)
        samples[~is_edge] = 2  # behind all others
        order = np.argsort(samples, 1)
        row, place = places(described)
        edge = order[row, place]
        start = edge // (ends.shape[1] // width)
        self.lengths = described + following
        self.ends = described  # (N,), where each sequence has got to
        shape = (count, steps_for(self.lengths, steps))
        self.read = np.full((*shape, 3), NONE, np.int16)
        self.asked = np.full((*shape, 3), NONE, np.int16)
        self.new_phase = np.zeros(shape, bool)
        self.answer_mask = np.zeros(shape, bool)
        nodes = graphs.nodes
        self.read[row, place, 0] = nodes[row, start]
        self.read[row, place, 1] = graphs.edges.reshape(count, -1)[row, edge]
        self.read[row, place, 2] = nodes[row, ends[row, edge]]
        self.new_phase[:, 0] = True

    def phase(
        self,
        sizes: np.ndarray,
        read: np.ndarray | None = None,
        answers: np.ndarray | None = None,
    ) -> None:
        """Adds a phase of so many steps.

        Args:
            sizes: (N,) its steps; the phase begins at once with the first of them.
            read: (N, S, 3) the triples to read, or None for blanks.
            answers: (N, S, 3) the triples to answer, or None where none is asked for.
        """
        row, place = places(sizes)
        at = self.ends[row] + place
        if read is not None:
            self.read[row, at] = read[row, place]
        if answers is not None:
            self.asked[row, at] = answers[row, place]
            self.answer_mask[row, at] = True
        begins = np.flatnonzero(sizes)
        self.new_phase[begins, self.ends[begins]] = True
        self.ends = self.ends + sizes

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that a network learns from."""
        inputs = np.zeros((*self.answer_mask.shape, INPUTS), np.float32)
        inputs[..., :TRIPLE] = encode(self.read)
        inputs[..., NEW_PHASE] = self.new_phase
        inputs[..., ANSWER] = self.answer_mask
        return {
            "inputs": inputs,
            "answer_mask": self.answer_mask,
            "targets": encode(self.asked),
            "lengths": self.lengths.astype(np.int32),
        }
