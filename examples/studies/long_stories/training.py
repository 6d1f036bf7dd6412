"""Trains one network on short stories within its CPU time.

The stories grow with the time: at first they have 64 tokens, at the end up to 1,024.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import babi
from keras_attention.losses import SupportingFactLoss
from studies.five_tasks.training import Budget
from studies.long_stories.models import Family
from studies.long_stories.stories import WORDS, Stories, Story, tokens_of
from studies.reports import thinned

TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "clipnorm": 1.0,
    "annealed": 0.6,
    "last": 0.05,
    "margin": 0.1,
    "tokens": 8192,  # of a batch of 8 to 64 stories
    "questions": 10_000,
    "lengths": [64, 128, 256, 512, 1024],
}
STEPS = 10  # of an epoch
FEWEST = 30  # questions whose facts fit a length, or no training at this length
SLACK = 1.3  # of the number of sentences of a length, for equal shapes


def arrays(
    family: Family, told: Sequence[Story], vocabulary: babi.Vocabulary, size: int
) -> tuple[dict[str, np.ndarray], Any]:
    """Returns inputs and targets; stories of sentences are padded to `size`."""
    answers = np.array([story.answer for story in told], "int32")
    if family.reads == "tokens":
        return {"tokens": np.stack([tokens_of(s, vocabulary) for s in told])}, answers
    size = max(size, *(len(story.sentences) for story in told))
    x = {
        "story": np.zeros((len(told), size, WORDS), "int32"),
        "question": np.stack([story.question for story in told]).astype("int32"),
    }
    for row, story in zip(x["story"], told):
        row[: len(story.sentences)] = story.sentences
    if family.reads == "sentences":
        return x, answers
    facts = np.stack([story.supports for story in told]).astype("int32")
    return {**x, "supporting_facts": facts}, {"facts": facts, "answer": answers}


def most_sentences(stories: Stories, length: int) -> int:
    """Returns a number of sentences that few stories of a length exceed."""
    return int(SLACK * length / stories.text.tokens.mean()) + 8


class Fresh(keras.utils.PyDataset):
    """Batches of new stories, each batch with stories of one length."""

    def __init__(
        self,
        family: Family,
        stories: Stories,
        vocabulary: babi.Vocabulary,
        settings: dict[str, Any],
        seed: int,
    ) -> None:
        super().__init__()
        self.family, self.stories, self.vocabulary = family, stories, vocabulary
        self.tokens, lengths = settings["tokens"], settings["lengths"]
        self.fitting = {n: stories.fitting(n) for n in lengths}
        self.lengths = [n for n in lengths if len(self.fitting[n]) >= FEWEST]
        self.rng = np.random.default_rng([1, seed])
        self.used: Any = lambda: 0.0  # the share of the CPU time that is used up

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        count = min(1 + int(1.5 * self.used() * len(self.lengths)), len(self.lengths))
        length = int(self.rng.choice(self.lengths[:count]))
        count = min(max(self.tokens // length, 8), 64)
        rows = self.rng.choice(self.fitting[length], count)
        told = [self.stories.story(int(row), length, self.rng) for row in rows]
        size = most_sentences(self.stories, length)
        return arrays(self.family, told, self.vocabulary, size)


def trained(
    model: keras.Model,
    family: Family,
    stories: Stories,
    vocabulary: babi.Vocabulary,
    settings: dict[str, Any],
    seed: int,
) -> dict[str, Any]:
    """Trains a network for the CPU time `settings["minutes"]`, compilation included.

    Returns:
        "steps", "loss", the mean of the last epoch, "cpu_seconds" and "history".
    """
    start = time.process_time()
    optimizer = keras.optimizers.Adam(family.rate, global_clipnorm=settings["clipnorm"])
    if family.reads == "supports":
        ranking = SupportingFactLoss(settings["margin"])
        model.compile(optimizer, {"facts": ranking, "answer": ranking})
    else:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss)
    budget = Budget(settings, family.rate, 60 * settings["minutes"], start)
    batches = Fresh(family, stories, vocabulary, settings, seed)
    batches.used = budget.used
    model.fit(batches, epochs=10**6, verbose=0, shuffle=False, callbacks=[budget])
    return {
        "steps": budget.steps,
        "loss": budget.history[-1]["loss"],
        "cpu_seconds": round(time.process_time() - start, 1),
        "history": thinned(budget.history, most=20),
    }
