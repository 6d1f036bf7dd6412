"""Responses in whole sentences: a recurrent network in place of R.

A MemNN finds the facts. A `Seq2Seq` reads the words of the question and of these facts
and responds with a sentence, such as "the milk is in the garden".
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import babi, simulated_world
from keras_attention.models import MemNN, Seq2Seq
from studies.memnn.training import PLAIN, TRAINING, Batches, arrays, fit

START, STOP = "<start>", "<stop>"
LONGEST = 8  # words of a response, with its end
SETTINGS: dict[str, Any] = {
    "training": {**TRAINING, "epochs": 10},
    "arguments": PLAIN,
    "responder": {"embedding_dim": 50, "units": 64, "cell": "lstm"},
    "rate": 0.005,
    "epochs": 10,
    "batch_size": 32,
}


def response_of(example: babi.Example) -> tuple[str, ...]:
    """Returns the answer of a question of the simulated world as a sentence."""
    answer = str(example.answer)
    if example.task == 3:  # where was mary before the office
        return (example.question[2], "was", "in", "the", answer)
    return (*example.question[2:], "is", "in", "the", answer)


def sentences(
    seed: int, difficulty: int, kind: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """Trains a MemNN and the network that responds; returns errors in per cent."""
    train, test = (
        simulated_world.simulate(count, difficulty, kind, seed=[seed, part])
        for part, count in enumerate((3000, 1000))
    )
    keras.utils.set_random_seed(seed)
    known = babi.Vocabulary.from_examples(train)
    vocabulary = babi.Vocabulary([*known.words[2:], "in", START, STOP])
    start = time.perf_counter()
    x, y = arrays(train, vocabulary, 2)
    finder = MemNN(len(vocabulary), supports=2, **settings["arguments"])
    size = settings["training"]["batch_size"]
    fit(finder, Batches(x, y, size, seed, "story"), settings["training"])
    responder = Seq2Seq(len(vocabulary), len(vocabulary), **settings["responder"])
    responder.compile(
        keras.optimizers.Adam(settings["rate"]),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
    )
    given = targets(train, vocabulary)
    responder.fit(
        {"source": finder.evidence(x), "target": given[:, :-1]},
        given[:, 1:],
        batch_size=settings["batch_size"],
        epochs=settings["epochs"],
        verbose=0,
    )
    seconds = time.perf_counter() - start
    x, y = arrays(test, vocabulary, 2)
    del x["supporting_facts"]
    first, last = vocabulary.encode([START, STOP])
    found = responder.generate(
        {"source": finder.evidence(x, batch_size=250)},
        max_length=LONGEST,
        start_token_id=first,
        stop_token_ids=last,
    )
    said = [sentence(row, vocabulary) for row in np.asarray(found)]
    wrong = [words != response_of(e) for words, e in zip(said, test, strict=True)]
    other = [
        not words or words[-1] != e.answer for words, e in zip(said, test, strict=True)
    ]
    return {
        **{"difficulty": difficulty, "questions": kind, "seed": seed},
        "sentence_error": round(100 * float(np.mean(wrong)), 2),
        "error": round(100 * float(np.mean(other)), 2),
        "fit_seconds": round(seconds, 1),
    }


def targets(
    examples: Sequence[babi.Example], vocabulary: babi.Vocabulary
) -> np.ndarray:
    """Returns the responses between their start and stop, int32 (N, LONGEST + 1)."""
    rows = np.zeros((len(examples), LONGEST + 1), "int32")
    for row, example in zip(rows, examples):
        ids = vocabulary.encode([START, *response_of(example), STOP])
        row[: len(ids)] = ids
    return rows


def sentence(ids: np.ndarray, vocabulary: babi.Vocabulary) -> tuple[str, ...]:
    """Returns the words of a generated row, without its start and from its stop on."""
    words = [word for word in vocabulary.decode(ids) if word and word != START]
    return tuple(words[: words.index(STOP)] if STOP in words else words)
