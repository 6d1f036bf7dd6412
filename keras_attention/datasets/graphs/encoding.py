"""Encodes label triples as digits and questions as sequences of triples.

A label from 0 to 999 becomes three one-hot digits: 30 numbers, all zero for a blank
label. A triple (source, edge, destination) becomes 90 numbers. Two more input channels
mark the start of a phase and the answer steps.
"""

import numpy as np

from keras_attention.datasets.graphs.maps import LABELS, NONE, Graphs
from keras_attention.datasets.ragged import places, steps_for

TRIPLE = 90
INPUTS = TRIPLE + 2
NEW_PHASE, ANSWER = TRIPLE, TRIPLE + 1  # the two channels after a triple


def _codes() -> np.ndarray:
    digits = np.arange(LABELS)[:, None] // [100, 10, 1] % 10  # (1000, 3)
    code = np.eye(10, dtype=np.float32)[digits].reshape(LABELS, 30)
    return np.concatenate([code, np.zeros((1, 30), np.float32)])  # the last is -1


_CODES = _codes()


def encode(triples: np.ndarray) -> np.ndarray:
    """Encodes label triples, (..., 3) ints with -1 for blank, as (..., 90) float32.

    Example:
        ```python
        encode(np.array([[417, 3, -1]])).nonzero()[1]  # [4, 11, 27, 30, 40, 53]
        ```
    """
    return _CODES[triples].reshape(*triples.shape[:-1], TRIPLE)


def decode(scores: np.ndarray) -> np.ndarray:
    """Decodes network scores (..., 90) to (..., 3) labels, digit by digit."""
    digits = scores.reshape(*scores.shape[:-1], 3, 3, 10).argmax(-1)
    return (digits * [100, 10, 1]).sum(-1).astype(np.int16)


def decode_inputs(inputs: np.ndarray) -> np.ndarray:
    """Decodes input triples (..., 90 or more) to labels (..., 3), -1 for blank.

    Example:
        ```python
        decode_inputs(encode(np.array([[417, 3, -1]])))  # [[417, 3, -1]]
        ```
    """
    triples = inputs[..., :TRIPLE]
    blank = ~triples.reshape(*triples.shape[:-1], 3, 30).any(-1)
    return np.where(blank, NONE, decode(triples)).astype(np.int16)


class Sequences:
    """Builds N sequences of input and target triples.

    Each begins with all triples of its graph in random order; `following` (N,) steps
    come after them. T is `steps`, or the length of the longest sequence.
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
        samples[~is_edge] = 2  # sorts missing edges last
        order = np.argsort(samples, 1)
        row, place = places(described)
        edge = order[row, place]
        start = edge // (ends.shape[1] // width)
        self.lengths = described + following
        self.ends = described  # (N,), current step of each sequence
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
        """Adds a phase of (N,) `sizes` steps, and marks its start.

        `read` and `answers` are (N, S, 3) input and target triples; None for none.
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

    def ask(self, triples: np.ndarray, planning: int) -> np.ndarray:
        """Adds questions for the ends of (N, queries, 3) triples, and their answers.

        `planning` blank steps follow each question. Returns the steps of the questions,
        (N, queries).
        """
        once, steps = np.ones(len(triples), int), []
        for triple in np.moveaxis(triples[:, :, None], 1, 0):  # (N, 1, 3) each
            steps.append(self.ends)
            question = triple.copy()
            question[..., 2] = NONE
            self.phase(once, read=question)
            self.phase(planning * once)
            self.phase(once, answers=triple)
        return np.stack(steps, 1)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the training arrays."""
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
