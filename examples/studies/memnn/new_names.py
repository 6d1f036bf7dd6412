"""Names, rooms and objects that were never trained on.

Networks learn from stories with bAbI's names. They are tested on the test questions as
they are, and on the same questions with each name, room and object replaced by a word
that training does not contain.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import keras

from keras_attention.datasets import babi, simulated_world
from keras_attention.models import MemN2N, MemNN
from studies.memnn.training import PLAIN, TRAINING, Arrays, Batches, arrays, errors, fit

# Task 1 of bAbI, and worlds by their difficulty and questions.
STORIES: dict[str, tuple[int, str] | None] = {
    "babi-1": None,
    "world-actor": (5, "actor"),
    "world-actor+object": (5, "actor+object"),
}
NEW_NAMES = {
    **{"mary": "bilbo", "john": "frodo", "sandra": "gollum", "daniel": "gandalf"},
    **{"bedroom": "shire", "bathroom": "cave", "kitchen": "forge"},
    **{"office": "tower", "garden": "glade", "hallway": "bridge"},
    **{"apple": "ring", "football": "staff", "milk": "cloak"},
}
_READING: dict[str, Any] = {
    "arguments": {
        "embedding_dim": 50,
        "hops": 3,
        "memory_size": 50,
        "time_noise": 0.1,
    },
    "training": {
        "optimizer": "Adam",
        "rate": 0.01,
        "decay": "cosine",
        "clipnorm": 40.0,
        "batch_size": 32,
        "epochs": 60,
    },
}
_FINDING: dict[str, Any] = {"training": {**TRAINING, "epochs": 10}}
# The networks with the suffix "-plain" do not know of new words.
NETWORKS: dict[str, dict[str, Any]] = {
    "memnn": {
        "arguments": {**PLAIN, "exact_match": True},
        **_FINDING,
        "new_words": 16,
        "dropout": 0.3,
    },
    "memnn-plain": {"arguments": PLAIN, **_FINDING, "new_words": 0, "dropout": 0.0},
    "memn2n": {**_READING, "new_words": 16, "dropout": 0.5},
    "memn2n-plain": {**_READING, "new_words": 0, "dropout": 0.0},
}


def settings_of(network: str, epochs: int | None) -> dict[str, Any]:
    """Returns the settings of a run; `epochs` replaces the network's, unless None."""
    settings = NETWORKS[network]
    training = settings["training"]
    training = training if epochs is None else {**training, "epochs": epochs}
    return {**settings, "training": training}


def examples_of(stories: str, seed: int) -> tuple[list[Any], list[Any]]:
    """Returns the training and the test questions of one of `STORIES`."""
    world = STORIES[stories]
    if world is None:
        return babi.load(1, "train"), babi.load(1, "test")
    train, test = (
        simulated_world.simulate(count, *world, seed=[seed, part])
        for part, count in enumerate((3000, 1000))
    )
    return train, test


def new_names(
    stories: str, network: str, seed: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Trains a network and returns its errors on known and on new names, in per cent.

    A network without new words has untrained embeddings of the new names.
    """
    train, test = examples_of(stories, seed)
    renamed = [babi.renamed(example, NEW_NAMES) for example in test]
    known = babi.Vocabulary.from_examples(train)
    count = settings["new_words"]
    if count:
        vocabulary = babi.with_new_words(known, count)
        renamed = babi.number_new_words(renamed, known, count)
    else:
        vocabulary = babi.Vocabulary.from_examples([*train, *test, *renamed])
    keras.utils.set_random_seed(seed)
    learn = _memnn if network.startswith("memnn") else _memn2n
    start = time.perf_counter()
    error_of = learn(train, vocabulary, len(known), seed, settings)
    seconds = time.perf_counter() - start
    return {
        **{"stories": stories, "network": network, "seed": seed},
        "known_error": round(error_of(test), 2),
        "new_error": round(error_of(renamed), 2),
        "train_error": round(error_of(train), 2),
        "fit_seconds": round(seconds, 1),
    }


def _memnn(
    train: Sequence[babi.Example],
    vocabulary: babi.Vocabulary,
    known: int,
    seed: int,
    settings: dict[str, Any],
) -> Any:
    """Trains a MemNN and returns a function that measures its error on examples."""
    supports = max(len(example.supporting_facts) for example in train)
    count = settings["new_words"]
    model = MemNN(
        known if count else len(vocabulary),
        supports=supports,
        new_words=count,
        **settings["arguments"],
    )
    batches = _batches(*arrays(train, vocabulary, supports), known, seed, settings)
    fit(model, batches, settings["training"])
    return lambda examples: errors(model, *arrays(examples, vocabulary, supports))[0]


def _memn2n(
    train: Sequence[babi.Example],
    vocabulary: babi.Vocabulary,
    known: int,
    seed: int,
    settings: dict[str, Any],
) -> Any:
    """Trains a MemN2N and returns a function that measures its error on examples."""
    slots, training = settings["arguments"]["memory_size"], settings["training"]

    def vectors(examples: Sequence[babi.Example]) -> tuple[Arrays, Arrays]:
        found = babi.vectorize(examples, vocabulary, slots)
        return found.inputs, {"answer": found.answers}

    def error(examples: Sequence[babi.Example]) -> float:
        x, y = vectors(examples)
        logits = model.predict(x, batch_size=250, verbose=0)
        return 100 * float((logits.argmax(-1) != y["answer"]).mean())

    model = MemN2N(len(vocabulary), **settings["arguments"])
    batches = _batches(*vectors(train), known, seed, settings)
    rate = keras.optimizers.schedules.CosineDecay(
        training["rate"], training["epochs"] * len(batches)
    )
    model.compile(
        keras.optimizers.Adam(rate, clipnorm=training["clipnorm"]),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(batches, epochs=training["epochs"], verbose=0)
    return error


class _Reading(Batches):
    """Batches in which some known words are new, others in each epoch.

    Without supporting facts, the target is the array of answers.
    """

    dropout: babi.WordDropout | None = None

    def __getitem__(self, index: int) -> Any:
        x, y = super().__getitem__(index)
        if self.dropout is not None:
            story, question, answer = self.dropout(
                x["story"], x["question"], y["answer"]
            )
            x = {**x, "story": story, "question": question}
            y = {**y, "answer": answer}
        return x, y if "facts" in y else y["answer"]


def _batches(
    x: Arrays, y: Arrays, known: int, seed: int, settings: dict[str, Any]
) -> Batches:
    batches = _Reading(x, y, settings["training"]["batch_size"], seed, "story")
    if settings["new_words"]:
        batches.dropout = babi.WordDropout(
            known, settings["new_words"], settings["dropout"], seed
        )
    return batches
