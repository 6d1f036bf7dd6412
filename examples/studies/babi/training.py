"""One run: trains a network from one seed and tests it on each of its tasks."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from keras_attention import callbacks, models
from keras_attention.datasets import DataNotFoundError, babi
from studies.babi.distractors import LONGEST, Distractors
from studies.babi.recipes import QUESTIONS, Recipe
from studies.batches import differ_first


class Trainer:
    """Trains a recipe's network on one task or on all tasks, for any number of runs.

    The networks for one task are compiled once. Each run initializes the weights again
    from the seed of the run. The joint network takes long to train and is rebuilt for
    each run.

    Args:
        recipe: the recipe.
        task: a task number; None for all tasks.
        size: "1k" or "10k".
        data: "real", or "simulated" to train on simulated questions. The test questions
            are always real.

    Raises:
        DataNotFoundError: the archive or the required part is not available.
    """

    def __init__(
        self, recipe: Recipe, task: int | None, size: str, data: str = "real"
    ) -> None:
        self.load(recipe, task, size, data)
        self.compiled: dict[int, Any] = {}  # the networks for one task

    def load(self, recipe: Recipe, task: int | None, size: str, data: str) -> None:
        """Loads the questions as arrays."""
        self.recipe = recipe
        self.task = task
        self.size = size
        self.data = data
        tasks = list(babi.TASKS) if task is None else [task]
        parts = {task: _questions(task, size, data) for task in tasks}
        found = {task: _exchanges(own, recipe) for task, own in parts.items()}
        train, test = [], []
        for task, exchanges in found.items():
            train += babi.join_phrases(parts[task], exchanges.phrases)
            test += babi.join_phrases(babi.load(task, "test", size), exchanges.phrases)
        vocabulary = babi.Vocabulary.from_examples(train)
        self.vocabulary_size = len(vocabulary)
        longest = max(len(example.story) for example in train + test)
        self.slots = slots = min(longest, recipe.memory_size)
        with warnings.catch_warnings():
            # Longer stories are truncated, as in the paper.
            warnings.simplefilter("ignore", UserWarning)
            self.train = babi.vectorize(train, vocabulary, slots)
            self.test = babi.vectorize(
                known_answers(test, vocabulary), vocabulary, slots
            )
        self.stories = number_stories(train)
        self.train_tasks = np.array([example.task for example in train])
        self.test_tasks = np.array([example.task for example in test])
        self.vocabulary = vocabulary
        self.exchanges = found

    def run(self, seed: int, progress: Any = None) -> dict[str, Any]:
        """Trains the network from `seed` and tests it.

        Args:
            seed: the seed of the weights, the noise and the order of the questions.
            progress: called with (epoch, logs) after each epoch.

        Returns:
            The run, in the format of the results file.
        """
        recipe = self.recipe
        held, used = split_by_story(self.stories, recipe.held_out, seed)
        tried: list[dict[str, Any]] = []
        networks = []
        for number in range(1 + len(recipe.others)):
            networks.append(self._prepared(number, seed))
            tried.append(self._fit(used, seed, progress))
            if tried[-1]["enough"]:
                break
        best = min(
            range(len(tried)),
            key=lambda n: (tried[n]["train_error"], tried[n]["train_loss"]),
        )
        self.model = networks[best]
        wrong = self._wrong(self.test.inputs, self.test.answers)
        return {
            "recipe": recipe.name,
            "size": self.size,
            "data": self.data,
            "task": self.task,
            "seed": seed,
            "errors": {
                int(task): round(100 * float(wrong[self.test_tasks == task].mean()), 2)
                for task in np.unique(self.test_tasks)
            },
            "questions": {
                int(task): int(np.sum(self.train_tasks == task))
                for task in np.unique(self.train_tasks)
            },
            "train_error": tried[best]["train_error"],
            "train_loss": tried[best]["train_loss"],
            "validation_error": self._error(held) if len(held) else None,
            "validation_errors": {
                int(task): self._error(held[self.train_tasks[held] == task])
                for task in np.unique(self.train_tasks[held])
            },
            "fit_seconds": round(sum(one["fit_seconds"] for one in tried), 1),
            **({"network": best, "tried": tried} if recipe.others else {}),
            "settings": recipe.settings(),
            "backend": keras.config.backend(),
            "keras": keras.__version__,
        }

    def _fit(self, used: np.ndarray, seed: int, progress: Any) -> dict[str, Any]:
        """Trains the network, and returns how the training went."""
        recipe = self.recipe
        start = time.perf_counter()
        linear = recipe.linear_epochs
        if recipe.first:
            alone = used[np.isin(self.train_tasks[used], recipe.first)]
            self.model.optimizer.learning_rate = recipe.first_rate
            self._epochs(
                *(alone, seed, recipe.first_epochs),
                *(linear, recipe.first_halve_every, progress),
            )
            self.model.optimizer.learning_rate = recipe.rate
            linear = 0
        enough = _Enough(recipe)
        losses = self._epochs(
            *(used, seed, recipe.epochs, linear, recipe.halve_every, progress), enough
        )
        return {
            "epochs": len(losses),
            "enough": enough.reached,
            "train_error": self._error(used),
            "train_loss": round(losses[-1], 4),
            "fit_seconds": round(time.perf_counter() - start, 1),
        }

    def _epochs(
        self,
        used: np.ndarray,
        seed: int,
        epochs: int,
        linear: int,
        halve_every: int,
        progress: Any,
        *more: keras.callbacks.Callback,
    ) -> list[float]:
        """Trains for some epochs, and returns the loss of each."""
        history = self.model.fit(
            **self._questions_for_fit(used, seed),
            epochs=epochs,
            verbose=0,
            callbacks=[
                *([callbacks.LinearStart(epochs=linear)] if linear else []),
                callbacks.HalveLearningRate(
                    halve_every, start=linear or self.recipe.clean_epochs
                ),
                keras.callbacks.LambdaCallback(on_epoch_end=progress),
                *more,
            ],
        ).history
        return list(history["loss"])

    def _prepared(self, number: int, seed: int) -> Any:
        """Returns a network of the recipe with the initial weights of a seed."""
        if self.task is not None and number not in self.compiled:
            self.model = self.compiled[number] = self._compiled(number)
            # The first `fit` of Keras consumes additional random numbers.
            first = np.arange(self.recipe.batch_size)
            self.model.fit(Batches(self, first, seed=0), verbose=0)
        keras.utils.set_random_seed(seed)
        if self.task is None:
            self.model = self._compiled(number)
        else:
            self.model = self.compiled[number]
            self._begin_anew(number)
        return self.model

    def _build(self, number: int) -> Any:
        recipe = self.recipe
        cls = getattr(models, recipe.cls)
        arguments = {**recipe.arguments, **({}, *recipe.others)[number]}
        # The longest story in the training or test questions determines the number of
        # slots. Shorter stories are filled with null memories.
        return cls(self.vocabulary_size, memory_size=self.slots, **arguments)

    def _compiled(self, number: int) -> Any:
        recipe, model = self.recipe, self._build(number)
        model.compile(
            getattr(keras.optimizers, recipe.optimizer)(
                recipe.rate, clipnorm=recipe.clipnorm
            ),
            keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction="sum"
            ),
            metrics=["accuracy"],
        )
        return model

    def _questions_for_fit(self, used: np.ndarray, seed: int) -> dict[str, Any]:
        """Returns plain arrays, or `Batches` for recipes with renaming or buckets."""
        if self.recipe.rename or self.recipe.buckets:
            return {"x": Batches(self, used, seed)}
        inputs = {name: array[used] for name, array in self.train.inputs.items()}
        size = self.recipe.batch_size
        return {"x": inputs, "y": self.train.answers[used], "batch_size": size}

    def _begin_anew(self, number: int) -> None:
        """Resets the weights and the optimizer without a new compilation."""
        fresh = self._build(number)
        for layer, source in zip(self.model.layers, fresh.layers, strict=True):
            for variable, value in zip(layer.variables, source.variables, strict=True):
                variable.assign(value)
        optimizer = self.model.optimizer
        for variable in optimizer.variables:
            variable.assign(np.zeros(variable.shape, variable.dtype))
        optimizer.learning_rate = self.recipe.rate

    def _wrong(self, inputs: dict[str, np.ndarray], answers: np.ndarray) -> np.ndarray:
        logits = self.model.predict(inputs, batch_size=500, verbose=0)
        # Answer 0 is one that the vocabulary lacks: it is never right.
        return (logits.argmax(-1) != answers) | (answers == 0)

    def _error(self, which: np.ndarray) -> float:
        """Returns the error in per cent on training questions, without noise."""
        inputs = {name: array[which] for name, array in self.train.inputs.items()}
        wrong = self._wrong(inputs, self.train.answers[which])
        return round(100 * float(wrong.mean()), 2)


class _Enough(keras.callbacks.Callback):
    """Ends the training of a network that is good enough; see `Recipe.enough`."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self._recipe = recipe
        self._in_a_row = 0
        self.reached = False

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        # The loss is summed over a batch.
        good = logs["loss"] < self._recipe.enough * self._recipe.batch_size
        after = bool(self._recipe.first) or epoch >= self._recipe.linear_epochs
        self._in_a_row = self._in_a_row + 1 if good and after else 0
        if self._in_a_row == 3:
            self.reached = self.model.stop_training = True


class Batches(keras.utils.PyDataset):
    """Batches of training questions, with new order and new names in each epoch.

    Stories of similar length share a batch, so few slots are empty. The number of slots
    of a batch is the smallest bucket that fits its stories.

    Args:
        trainer: provides the questions.
        used: the indices of the training questions.
        seed: the seed of the order and the names.
    """

    def __init__(self, trainer: Trainer, used: np.ndarray, seed: int) -> None:
        super().__init__()
        self._train, self._tasks = trainer.train, trainer.train_tasks
        self._size = trainer.recipe.batch_size
        self._used = used
        self._generator = np.random.default_rng(seed)
        found = trainer.exchanges
        self._rename = babi.Renamer(
            {task: exchanges.groups for task, exchanges in found.items()},
            trainer.vocabulary,
            seed=seed,
            joint={task: exchanges.joint for task, exchanges in found.items()},
        )
        self._longest = longest = self._train.inputs["story"].shape[1]
        self._padded, self._clean = trainer.recipe.padded, trainer.recipe.clean_epochs
        if self._padded:
            self._distractors = Distractors(
                self._train.inputs["story"][used], trainer.vocabulary
            )
        buckets = [slots for slots in trainer.recipe.buckets if slots < longest]
        self._buckets = [*sorted(buckets), longest]
        self._epoch = -1
        self.on_epoch_end()

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        rows, slots = self._batches[index]
        story, question, answers = self._rename(
            self._tasks[rows],
            self._train.inputs["story"][rows, :slots],
            self._train.inputs["question"][rows],
            self._train.answers[rows],
        )
        for i in np.flatnonzero(self._more[rows]):
            story[i] = self._distractors.add(
                story[i], question[i], self._more[rows[i]], self._generator
            )
        return {"story": story, "question": question}, answers

    def on_epoch_end(self) -> None:
        self._epoch += 1
        left = np.empty(0, int)
        batches: list[tuple[np.ndarray, int]] = []
        for rows, slots in zip(self._by_bucket(), self._buckets):
            # Leftover questions move to the bucket of longer stories.
            rows = np.concatenate([left, rows])
            whole = len(rows) // self._size * self._size
            left = rows[whole:]
            batches += [(part, slots) for part in rows[:whole].reshape(-1, self._size)]
        if len(left):
            batches.append((left, self._buckets[-1]))
        order = self._generator.permutation(len(batches))
        self._batches = [batches[i] for i in order]
        differ_first(self._batches, lambda batch: batch[1])

    def _by_bucket(self) -> list[np.ndarray]:
        """Returns the shuffled questions of each bucket."""
        rows = self._generator.permutation(self._used)
        lengths = self._train.inputs["story"][rows].any(-1).sum(-1)
        self._more = np.zeros(len(self._train.answers), int)
        if self._padded:
            self._more[rows] = self._sentences_to_add(rows, lengths)
            lengths += self._more[rows]
        bucket = np.searchsorted(self._buckets, lengths)
        return [rows[bucket == number] for number in range(len(self._buckets))]

    def _sentences_to_add(self, rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Returns how many sentences about others each story gets.

        The new length is uniform, up to `distractors.LONGEST`.
        """
        questions = self._train.inputs["question"][rows]
        chosen = self._generator.random(len(rows)) < self._padded
        chosen &= self._distractors.applicable(questions)
        chosen &= self._epoch >= self._clean
        most = np.maximum(min(LONGEST, self._longest) - lengths, 0)
        more = np.round(most * self._generator.random(len(rows))).astype(int)
        return np.where(chosen, more, 0)


def _questions(task: int, size: str, data: str) -> list[babi.Example]:
    """Loads the training questions of a task."""
    if data == "simulated":
        return babi.simulate(task, QUESTIONS[size], seed=task)
    return training_questions(task, size)


def training_questions(task: int, size: str) -> list[babi.Example]:
    """Loads the training questions of a task, or those found of a missing file."""
    try:
        return babi.load(task, "train", size)
    except DataNotFoundError:
        if size != "10k":
            raise
    # The missing file contains the questions of these two files. The two may overlap,
    # so duplicate questions are dropped.
    parts = babi.load(task, "train", "1k") + babi.load(task, "valid", "10k")
    return list(dict.fromkeys(parts))


def number_stories(examples: Sequence[babi.Example]) -> np.ndarray:
    """Returns the number of the story of each question, (N,).

    A question belongs to the story of the question before it if its story begins with
    that question's story.
    """
    numbers = np.zeros(len(examples), int)
    for i in range(1, len(examples)):
        last, this = examples[i - 1], examples[i]
        goes_on = this.story[: len(last.story)] == last.story
        numbers[i] = numbers[i - 1] + (this.task != last.task or not goes_on)
    return numbers


def split_by_story(
    stories: np.ndarray, share: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the questions of random stories, about a `share` of all, and the others.

    Args:
        stories: the number of the story of each question, (N,).
        share: the share of the questions in the first part.
        seed: the seed of the choice.
    """
    counts = np.bincount(stories)
    order = np.random.default_rng(seed).permutation(len(counts))
    wanted = round(len(stories) * share)
    held = order[np.cumsum(counts[order]) - counts[order] < wanted]
    is_held = np.isin(stories, held)
    return np.flatnonzero(is_held), np.flatnonzero(~is_held)


def known_answers(
    examples: Sequence[babi.Example], vocabulary: babi.Vocabulary
) -> list[babi.Example]:
    """Removes answers that the vocabulary lacks, which no network can give."""
    return [
        example if str(example.answer) in vocabulary else replace(example, answer=None)
        for example in examples
    ]


def _exchanges(examples: list[babi.Example], recipe: Recipe) -> babi.Exchanges:
    """Returns the exchanges of a task that a recipe uses."""
    if not recipe.rename:
        return babi.Exchanges((), (), ())
    if recipe.exchange == "all":
        return babi.find_exchanges(examples)
    return babi.Exchanges((), babi.interchangeable(examples), ())
