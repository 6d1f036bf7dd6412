"""Trains one network within its CPU time, and tests it on new sequences."""

from __future__ import annotations

import time
from typing import Any

import keras
import numpy as np

from studies.five_tasks.training import TEST, TRAIN, Budget
from studies.recall.models import MEMORIES, VOCABULARY, sized, weights_of
from studies.recall.sequences import multi_query
from studies.reports import thinned

# Tokens and pairs of a sequence: those of figure 2 of the paper, and 256 tokens with 32
# pairs.
SLICES = ((64, 4), (128, 8), (256, 16), (256, 32), (512, 64))
TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "clipnorm": 1.0,
    "tokens": 4096,  # of a batch
    "steps": 25,  # of an epoch
    "annealed": 0.6,
    "last": 0.05,
    "tested": 1000,  # sequences of each slice
    "validated": 200,
}
SEEDS, MINUTES = (0, 1, 2), 8.0  # of the command, by default
TRIED_SEED = 100  # of the runs that choose the learning rate
RATES = (3e-3, 1e-3, 1e-2)  # if the first is as good as the best, it is used


def batch(
    tokens: int, pairs: int, count: int, seed: list[int]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns the inputs of `count` sequences, and the answers (B, K)."""
    data = multi_query(count, tokens, pairs, seed, VOCABULARY)
    return {"tokens": data.tokens, "queries": data.queries}, data.answers


class Fresh(keras.utils.PyDataset):
    """Batches of new sequences, one of each slice in turn, with equally many tokens.

    Args:
        settings: in the format of `TRAINING`.
        seed: the seed of the run.
    """

    def __init__(self, settings: dict[str, Any], seed: int) -> None:
        super().__init__()
        self.settings, self.seed, self.count = settings, seed, 0

    def __len__(self) -> int:
        return self.settings["steps"]

    def __getitem__(self, index: int) -> Any:
        tokens, pairs = SLICES[self.count % len(SLICES)]
        seed = [TRAIN, self.seed, self.count]
        self.count += 1
        return batch(tokens, pairs, self.settings["tokens"] // tokens, seed)


def run(
    name: str,
    dim: int,
    rate: float,
    seed: int,
    settings: dict[str, Any],
    part: int = TEST,
) -> dict[str, Any]:
    """Trains and tests one network.

    The CPU time includes creating and compiling the network, and the data, but not the
    test.

    Args:
        name: a name in `MEMORIES`.
        dim: D, the width of the network.
        rate: the learning rate.
        seed: the seed of the weights and the training sequences. The test sequences are
            the same for all seeds.
        settings: in the format of `TRAINING`, and `minutes`, the CPU time.
        part: `TEST`, or `VALIDATION` for runs that choose the rate.

    Returns:
        "accuracy", the share of right answers of each slice; "size" and "weights" of
        the network, the latter without its embeddings; "loss", the mean training loss
        of the last epoch; "steps"; "cpu_seconds" of the training; "test_seconds"; and
        "history".
    """
    size = sized(MEMORIES[name], dim)
    start = time.process_time()
    keras.utils.set_random_seed(seed)
    model = MEMORIES[name].build(dim, size)
    model.compile(
        keras.optimizers.Adam(rate, global_clipnorm=settings["clipnorm"]),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    budget = Budget(settings, rate, 60 * settings["minutes"], start)
    batches = Fresh(settings, seed)
    model.fit(batches, epochs=10**6, verbose=0, shuffle=False, callbacks=[budget])
    end = time.process_time()
    count = settings["tested" if part == TEST else "validated"]
    accuracy = [tested(model, *one, count, settings, part) for one in SLICES]
    return {
        "accuracy": accuracy,
        "size": size,
        "weights": weights_of(model),
        "loss": budget.history[-1]["loss"],
        "steps": budget.steps,
        "cpu_seconds": round(end - start, 1),
        "test_seconds": round(time.process_time() - end, 1),
        "history": thinned(budget.history, most=20),
    }


def tested(
    model: keras.Model,
    tokens: int,
    pairs: int,
    count: int,
    settings: dict[str, Any],
    part: int,
) -> float:
    """Returns the share of right answers to `count` sequences, or a few more.

    `part`, `TEST` or `VALIDATION`, is the seed of the sequences. A batch has as many
    tokens as in training.
    """
    size = settings["tokens"] // tokens
    right = []
    for n in range(-(-count // size)):
        inputs, answers = batch(tokens, pairs, size, [part, tokens, pairs, n])
        logits = np.asarray(model.predict_on_batch(inputs))  # (B, K, V)
        right.append(logits.argmax(-1) == answers)
    return round(float(np.mean(right)), 5)
