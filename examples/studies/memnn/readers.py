"""Networks without a memory: an RNN and an LSTM that read stories word by word.

They read the story and then the question. They answer from their final state with a
softmax over the vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import babi
from studies.memnn.training import Arrays, Batches

READING: dict[str, Any] = {
    "embedding_dim": 50,
    "units": 100,
    "optimizer": "Adam",
    "decay": "cosine",
    "clipnorm": 1.0,
    "batch_size": 32,
}
READERS: dict[str, dict[str, Any]] = {
    "rnn": {"layer": "SimpleRNN", **READING, "rate": 0.001, "epochs": 20},
    "lstm": {"layer": "LSTM", **READING, "rate": 0.003, "epochs": 30},
}


def read(
    train: Sequence[babi.Example],
    test: Sequence[babi.Example],
    seed: int,
    recipe: dict[str, Any],
) -> dict[str, Any]:
    """Trains on `train`, tests on `test` and returns the errors in per cent.

    Args:
        train: the training examples.
        test: the test examples.
        seed: the seed of the network and of the batches.
        recipe: a recipe in the format of `READERS`.
    """
    keras.utils.set_random_seed(seed)
    vocabulary = babi.Vocabulary.from_examples(train)
    x, y = sequences(train, vocabulary)
    batches = Batches(x, y, recipe["batch_size"], seed, "words")
    model = reader(len(vocabulary), recipe)
    rate = keras.optimizers.schedules.CosineDecay(
        recipe["rate"], recipe["epochs"] * len(batches)
    )
    model.compile(
        keras.optimizers.Adam(rate, clipnorm=recipe["clipnorm"]),
        {"answer": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
    )
    start = time.perf_counter()
    model.fit(batches, epochs=recipe["epochs"], verbose=0)
    seconds = time.perf_counter() - start
    return {
        "seed": seed,
        "longest": x["words"].shape[1],
        "error": round(wrong(model, *sequences(test, vocabulary)), 2),
        "train_error": round(wrong(model, x, y), 2),
        "fit_seconds": round(seconds, 1),
    }


def reader(vocabulary_size: int, recipe: dict[str, Any]) -> keras.Model:
    """Builds a network that maps words (B, T), padded with 0, to logits (B, V)."""
    words = keras.Input((None,), dtype="int32", name="words")
    state = keras.layers.Embedding(
        vocabulary_size, recipe["embedding_dim"], mask_zero=True
    )(words)  # (B, T, D)
    state = getattr(keras.layers, recipe["layer"])(recipe["units"])(state)  # (B, U)
    answer = keras.layers.Dense(vocabulary_size)(state)  # (B, V)
    return keras.Model({"words": words}, {"answer": answer})


def sequences(
    examples: Sequence[babi.Example], vocabulary: babi.Vocabulary
) -> tuple[Arrays, Arrays]:
    """Returns all words of the story and then of the question, and the answers."""
    slots = max(len(example.story) for example in examples)
    vectors = babi.vectorize(examples, vocabulary, slots)
    story, question = (vectors.inputs[name] for name in ("story", "question"))
    flat = np.concatenate([story.reshape(len(story), -1), question], axis=1)
    rows = [row[row != 0] for row in flat]
    words = np.zeros((len(rows), max(map(len, rows))), "int32")
    for line, row in zip(words, rows):
        line[: len(row)] = row
    return {"words": words}, {"answer": vectors.answers}


def wrong(model: keras.Model, x: Arrays, y: Arrays) -> float:
    """Returns the error rate of `model` in per cent."""
    logits = model.predict(x, batch_size=250, verbose=0)["answer"]
    return 100 * float((logits.argmax(-1) != y["answer"]).mean())
