"""Trains a MemNN with supporting facts and measures its errors.

The test uses the facts that the network retrieves.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import babi
from keras_attention.losses import SupportingFactLoss
from keras_attention.models import MemNN
from studies.batches import differ_first

Arrays = dict[str, np.ndarray]

PLAIN: dict[str, Any] = {
    "embedding_dim": 50,
    "time": True,
    "adaptive": True,
    "hop_versions": True,
}
RECIPES = {"plain": PLAIN, "rich": {**PLAIN, "ngrams": 3, "nonlinear": True}}
TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "rate": 0.01,
    "decay": "cosine",
    "batch_size": 32,
    "margin": 0.1,
    "epochs": 20,
}


def learn(
    train: Sequence[babi.Example],
    test: Sequence[babi.Example],
    held: Sequence[babi.Example],
    seed: int,
    training: dict[str, Any],
    recipe: dict[str, Any],
    most: int | None = None,
) -> dict[str, Any]:
    """Trains on `train`, tests on `test` and returns the errors in per cent.

    Args:
        train: the training examples.
        test: the test examples.
        held: validation examples. They may be empty.
        seed: the seed of the network and of the batches.
        training: settings in the format of `TRAINING`.
        recipe: arguments of the MemNN.
        most: the maximum number of retrieved facts; None for all.
    """
    keras.utils.set_random_seed(seed)
    vocabulary = babi.Vocabulary.from_examples(train)
    # Test stories may have more supporting facts than training stories.
    supports = max(len(example.supporting_facts) for example in train)
    if most is not None:
        supports = min(supports, most)
    x, y = arrays(train, vocabulary, supports)
    model = MemNN(len(vocabulary), supports=supports, **recipe)
    batches = Batches(x, y, training["batch_size"], seed, "story")
    start = time.perf_counter()
    fit(model, batches, training)
    seconds = time.perf_counter() - start
    error, facts = errors(model, *arrays(test, vocabulary, supports))
    row: dict[str, Any] = {"seed": seed, "supports": supports}
    if held:
        validation, _ = errors(model, *arrays(held, vocabulary, supports))
        row["validation_error"] = round(validation, 2)
    return {
        **row,
        "error": round(error, 2),
        "facts_error": round(facts, 2),
        "train_error": round(errors(model, x, y)[0], 2),
        "fit_seconds": round(seconds, 1),
    }


def fit(model: MemNN, batches: Batches, training: dict[str, Any]) -> None:
    """Trains a MemNN on batches, with settings in the format of `TRAINING`."""
    epochs = training["epochs"]
    rate = keras.optimizers.schedules.CosineDecay(
        training["rate"], epochs * len(batches)
    )
    loss = SupportingFactLoss(training["margin"])
    model.compile(keras.optimizers.Adam(rate), {"facts": loss, "answer": loss})
    model.fit(batches, epochs=epochs, verbose=0)


def arrays(
    examples: Sequence[babi.Example], vocabulary: babi.Vocabulary, supports: int
) -> tuple[Arrays, Arrays]:
    """Returns inputs and targets with at most the first `supports` supporting facts."""
    slots = max(len(example.story) for example in examples)
    vectors = babi.vectorize(examples, vocabulary, slots)
    facts = np.full((len(examples), supports), -1, "int32")
    for row, example in zip(facts, examples):
        known = example.supporting_facts[:supports]
        row[: len(known)] = known
    inputs = {**vectors.inputs, "supporting_facts": facts}
    return inputs, {"facts": facts, "answer": vectors.answers}


def errors(model: MemNN, x: Arrays, y: Arrays) -> tuple[float, float]:
    """Returns the error rates of the answers and the retrieved facts, in per cent."""
    given = {name: x[name] for name in ("story", "question")}
    found = model.predict(given, batch_size=250, verbose=0)
    answers = found["answer"].argmax(-1) != y["answer"]
    facts = (found["found"] != y["facts"]).any(-1)
    return 100 * float(answers.mean()), 100 * float(facts.mean())


class Batches(keras.utils.PyDataset):
    """Batches of examples with stories of similar length, so that padding is short.

    Args:
        x: inputs, one example per row.
        y: targets.
        batch_size: the maximum number of examples per batch.
        seed: the seed of the order, which changes in each epoch.
        cut: the name of the input that is truncated, (N, M) or (N, M, L). Its padding
            is 0. In each batch, it is truncated to a size that fits its longest row.
    """

    def __init__(
        self, x: Arrays, y: Arrays, batch_size: int, seed: int, cut: str
    ) -> None:
        super().__init__()
        self.x, self.y, self.batch_size, self.cut = x, y, batch_size, cut
        self.rng = np.random.default_rng(seed)
        filled = x[cut] != 0
        length = filled.any(tuple(range(2, filled.ndim))).sum(-1)  # (N,)
        # A backend may compile for each size, so there are few sizes: 16, 32, 64, …
        size = 2 ** np.ceil(np.log2(np.maximum(length, 16))).astype(int)
        self.sizes = np.minimum(size, filled.shape[1])
        self.on_epoch_end()

    def on_epoch_end(self) -> None:
        self.batches = []
        for size in np.unique(self.sizes):
            order = self.rng.permutation(np.flatnonzero(self.sizes == size))
            cuts = range(self.batch_size, len(order), self.batch_size)
            self.batches += [(size, rows) for rows in np.split(order, cuts)]
        self.rng.shuffle(self.batches)
        differ_first(self.batches, lambda batch: batch[0])

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Any:
        size, rows = self.batches[index]
        x = {name: array[rows] for name, array in self.x.items()}
        x[self.cut] = x[self.cut][:, :size]
        return x, {name: array[rows] for name, array in self.y.items()}
