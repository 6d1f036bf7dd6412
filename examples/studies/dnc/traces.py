"""What a DNC does with its memory while it copies.

Shapes: N sequences, T steps, M memory slots.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attention.datasets import algorithms
from studies.dnc.problems import seed_of

SEQUENCES = 64
SHARP = 0.5  # weight from which a slot counts as written or read


def traced(model: Any, length: int, seed: int) -> dict[str, float]:
    """Traces copies of `length` vectors, and counts what was lost and why.

    Args:
        model: a trained `DNCNetwork` with one read head and one write head.
        length: the number of vectors per sequence.
        seed: the seed of the run.

    Returns:
        "sequences", the share of correct copies; "write gate while reading" and "write
        gate while answering", means; "overwritten", the share of sequences in which a
        vector was overwritten before it was read as an answer; "free slots", the
        smallest number of slots of usage below 0.5; "first vector while reading", the
        mean weight of the read head on the slot of the first vector, at the last step
        before the end mark.
    """
    bits = model.input_dim - 1  # without the end mark
    data = algorithms.copy(SEQUENCES, length, bits, seed_of("test", [seed]))
    x = {name: data[name] for name in ("inputs", "answer_mask")}
    asked = data["answer_mask"]
    trace = model.trace(x)
    answers = np.asarray(model.predict(x, batch_size=16, verbose=0))
    right = ((answers > 0) == (data["targets"] > 0.5)).all(-1) | ~asked
    writes, reads = trace.write_weights[:, :, 0], trace.read_weights[:, :, 0]
    gate = trace.write_gate[:, :, 0]
    first = writes[:, 0].argmax(-1)  # slot of the first vector
    idle = reads[np.arange(SEQUENCES), length - 1, first]
    found = {
        "sequences": right.all(1).mean(),
        "write gate while reading": gate[:, :length].mean(),
        "write gate while answering": gate[asked].mean(),
        "overwritten": overwritten(writes, reads, length).mean(),
        "free slots": (trace.usage < 0.5).sum(-1).min(),
        "first vector while reading": idle.mean(),
    }
    return {name: round(float(number), 4) for name, number in found.items()}


def overwritten(writes: np.ndarray, reads: np.ndarray, length: int) -> np.ndarray:
    """Returns whether a sequence lost a vector that was not yet read, (N,) bool.

    Args:
        writes: the weights of the write head, (N, T, M).
        reads: the weights of the read head, (N, T, M).
        length: vectors are read in the first `length` steps, and answered after one
            more step.
    """
    lost = np.zeros(len(writes), bool)
    for n, (write, read) in enumerate(zip(writes, reads)):
        held: set[int] = set()
        for step in range(write.shape[0]):
            slot = int(write[step].argmax())
            if write[step, slot] > SHARP:
                lost[n] |= slot in held
                if step < length:
                    held.add(slot)
            slot = int(read[step].argmax())
            if step > length and read[step, slot] > SHARP:
                held.discard(slot)
    return lost
