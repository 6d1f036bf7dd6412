"""Trains one network within its CPU time, and tests it on new stories."""

from __future__ import annotations

import time
from typing import Any

import keras
import numpy as np

from keras_attention.losses import SupportingFactLoss
from studies.five_tasks.models import Family
from studies.five_tasks.tasks import Stories, Task, as_questions, as_sequences
from studies.reports import thinned

TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "clipnorm": 1.0,
    "batch_size": 32,
    "steps": 50,
    "annealed": 0.6,
    "last": 0.05,
    "margin": 0.1,
    "tested": 512,
    "validated": 512,
}
SEEDS, MINUTES = (0, 1, 2), 1.5  # of the command, by default
TRIED_SEED = 100  # of the runs that choose the learning rate
POOL = 16  # number of batches that are generated together
TRAIN, TEST, VALIDATION = 1, 2, 3  # first number of a seed


def batch_of(family: Family, task: Task, stories: Stories) -> tuple[Any, Any]:
    """Returns the inputs and targets of a family's networks.

    Args:
        family: the model family.
        task: the task of the stories.
        stories: N stories.
    """
    if family.reads == "sequences":
        return as_sequences(task, stories), stories.answers
    x, y = as_questions(task, stories), stories.answers.reshape(-1)
    facts = x["supporting_facts"]
    if family.reads == "supports":
        return x, {"facts": facts, "answer": y}
    return {"story": x["story"], "question": x["question"]}, y


class Fresh(keras.utils.PyDataset):
    """Batches of new stories.

    Args:
        family: the model family.
        task: the task.
        settings: `steps`, the number of batches per epoch; `batch_size`, the number of
            stories per batch.
        seed: the seed of the run.
    """

    def __init__(
        self, family: Family, task: Task, settings: dict[str, Any], seed: int
    ) -> None:
        super().__init__()
        self.family, self.task, self.seed = family, task, seed
        self.steps, self.size = settings["steps"], settings["batch_size"]
        self.num_pools = 0
        self.batches: list[Stories] = []

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not self.batches:
            seed = [TRAIN, self.seed, self.num_pools]
            stories = self.task.stories(POOL * self.size, seed)
            parts = zip(*(np.split(array, POOL) for array in stories))
            self.batches = [Stories(*part) for part in parts]
            self.num_pools += 1
        return batch_of(self.family, self.task, self.batches.pop())


class Budget(keras.callbacks.Callback):
    """Ends training when the CPU time is over, and lowers the learning rate before.

    Args:
        settings: `annealed`, the share of the time after which the rate decays linearly
            to the share `last`.
        rate: the first learning rate.
        seconds: the CPU time.
        start: the CPU time of the process when the run began.
    """

    def __init__(
        self, settings: dict[str, Any], rate: float, seconds: float, start: float
    ) -> None:
        super().__init__()
        self.settings, self.rate = settings, rate
        self.seconds, self.start = seconds, start
        self.steps = 0
        self.history: list[dict[str, float]] = []

    def used(self) -> float:
        """Returns the share of the CPU time that is used up."""
        return (time.process_time() - self.start) / self.seconds

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        annealed, last = self.settings["annealed"], self.settings["last"]
        left = (1 - self.used()) / (1 - annealed)
        self.model.optimizer.learning_rate = self.rate * min(max(left, last), 1)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.steps += 1
        if self.used() >= 1:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        entry = {"steps": self.steps, "loss": round(float(logs["loss"]), 5)}
        self.history.append({"used": round(self.used(), 3), **entry})


def run(
    family: Family,
    task: Task,
    size: int,
    rate: float,
    seed: int,
    settings: dict[str, Any],
    part: int = TEST,
) -> dict[str, Any]:
    """Trains and tests one network.

    The CPU time includes creating and compiling the network, and the data, but not the
    test.

    Args:
        family: the model family.
        task: the task.
        size: the size of the network, from `models.sized`.
        rate: the learning rate.
        seed: the seed of the weights and the training stories. The test stories are the
            same for all seeds.
        settings: in the format of `TRAINING`, and `minutes`, the CPU time.
        part: `TEST`, or `VALIDATION` for runs that choose settings. They use other
            stories than the test.

    Returns:
        "answers" and "stories", the shares of correct answers and of stories with only
        correct answers; "loss", the mean training loss of the last epoch; "steps";
        "cpu_seconds" of the training; and "history".
    """
    start = time.process_time()
    keras.utils.set_random_seed(seed)
    model = family.build(task, size)
    compiled(model, family, rate, settings)
    budget = Budget(settings, rate, 60 * settings["minutes"], start)
    batches = Fresh(family, task, settings, seed)
    model.fit(batches, epochs=10**6, verbose=0, shuffle=False, callbacks=[budget])
    seconds = time.process_time() - start
    count = settings["tested" if part == TEST else "validated"]
    right = tested(model, family, task, count, part)
    history = budget.history
    return {
        "answers": round(float(right.mean()), 5),
        "stories": round(float(right.all(axis=1).mean()), 5),
        "loss": history[-1]["loss"],
        "steps": budget.steps,
        "cpu_seconds": round(seconds, 1),
        "history": thinned(history, most=20),
    }


def compiled(
    model: keras.Model, family: Family, rate: float, settings: dict[str, Any]
) -> None:
    """Compiles a network of a family for training."""
    optimizer = keras.optimizers.Adam(rate, global_clipnorm=settings["clipnorm"])
    if family.reads == "supports":
        ranking = SupportingFactLoss(settings["margin"])
        model.compile(optimizer, {"facts": ranking, "answer": ranking})
    else:
        model.compile(
            optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        )


def tested(
    model: keras.Model, family: Family, task: Task, count: int, part: int
) -> np.ndarray:
    """Returns whether each answer to `count` stories is right, (N, K) bool.

    `part`, `TEST` or `VALIDATION`, is the seed of the stories.
    """
    stories = task.stories(count, [part])
    x, _ = batch_of(family, task, stories)
    x.pop("supporting_facts", None)
    found = model.predict(x, batch_size=128, verbose=0)
    if family.reads == "supports":
        found = found["answer"]
    words = np.asarray(found).argmax(-1).reshape(stories.answers.shape)
    return words == stories.answers
