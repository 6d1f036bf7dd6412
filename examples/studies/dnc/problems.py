"""Problems of the algorithmic tasks and their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import keras
import numpy as np

from keras_attention.datasets import algorithms

Arrays = dict[str, np.ndarray]
Lesson = Mapping[str, Any]
Seed = Sequence[int]


class Problem(Protocol):
    """The data of a task and its scores.

    Attributes:
        width: D, the width of input vectors; None if the inputs are tokens.
        vocabulary: the number of tokens; None if the inputs are vectors.
        outputs: V, the number of logits.
        lessons: arguments of `draw`, from the easiest lesson to the final one.
        tests: arguments of `draw` for each test, by its name.
        bars: the scores that end the first lessons. For the other lessons, `bar` and
            `last_bar` of the settings apply.
        beyond: arguments of `draw` for sequences longer than in training, or None. If
            given, the last lesson ends only if the score on them is also high enough.
        loss: the loss of the logits at the answer steps.
    """

    width: int | None
    vocabulary: int | None
    outputs: int
    lessons: Sequence[Lesson]
    tests: Mapping[str, Lesson]
    bars: Sequence[float]
    beyond: Lesson | None
    loss: keras.losses.Loss

    def draw(self, lesson: Lesson, count: int, seed: Seed, part: str) -> Any:
        """Generates `count` sequences of the part "train", "validation" or "test".

        Returns:
            A dictionary with "inputs" (N, T, D) or (N, T), "answer_mask" (N, T),
            "targets" (N, T, …), "lengths" (N,), and further entries that `score` needs.
        """

    def score(
        self, model: keras.Model, data: Any, batch_size: int = 64
    ) -> dict[str, float]:
        """Returns scores from 0 to 1. The first score decides when a lesson ends."""


@runtime_checkable
class Remembers(Protocol):
    """A problem whose next draws depend on what has happened before."""

    def state(self) -> Any:
        """Returns what the next draws depend on, as JSON values."""

    def restore(self, state: Any) -> None:
        """Restores the output of `state`."""


@runtime_checkable
class Adapts(Protocol):
    """A problem that draws according to the scores of the last validation."""

    def scored(self, scores: Mapping[str, float]) -> None:
        """Stores the scores of a validation."""


class Bits:
    """A task of `datasets.algorithms`. The score is the share of correct bits.

    Args:
        draw: the function that generates the sequences.
        lessons: the arguments of `draw`, lesson by lesson.
        tests: the arguments of `draw` by test name. Defaults to the last lesson.
        beyond: the arguments of `draw` for sequences longer than in training, or None.
    """

    width: int | None
    vocabulary: int | None = None
    bars: Sequence[float] = ()

    def __init__(
        self,
        draw: Callable[..., Arrays],
        lessons: Sequence[Lesson],
        tests: Mapping[str, Lesson] | None = None,
        beyond: Lesson | None = None,
    ) -> None:
        self.lessons, self.beyond = lessons, beyond
        self.tests = {"test": lessons[-1]} if tests is None else tests
        self._draw = draw
        sample = draw(1, **lessons[0])
        self.width = sample["inputs"].shape[-1]
        self.outputs = sample["targets"].shape[-1]
        self.loss = keras.losses.BinaryCrossentropy(from_logits=True)

    def draw(self, lesson: Lesson, count: int, seed: Seed, part: str) -> Arrays:
        """Generates `count` sequences. Each part has its own random numbers."""
        return self._draw(count, **lesson, seed=seed_of(part, seed))

    def score(
        self, model: keras.Model, data: Arrays, batch_size: int = 64
    ) -> dict[str, float]:
        """Returns the shares of correct bits and of fully correct sequences."""
        right = (predicted(model, data, batch_size) > 0) == (
            data["targets"] > 0.5
        )  # (N, T, V)
        asked = data["answer_mask"]
        whole = (right.all(-1) | ~asked).all(-1)
        return {"bits": float(right[asked].mean()), "sequences": float(whole.mean())}


PARTS = ("train", "validation", "test")


def seed_of(part: str, seed: Seed) -> Seed:
    """Returns a seed that differs between the parts.

    The number of the part comes first, because NumPy ignores zeros at the end of a
    seed.
    """
    return [1 + PARTS.index(part), *seed]


STEPS = 16  # `predicted` pads the sequences to a multiple of this length


def predicted(model: keras.Model, data: Arrays, batch_size: int) -> np.ndarray:
    """Predicts logits (N, T, V) for any number of sequences of any length."""
    count, steps = data["answer_mask"].shape
    padded = -(-steps // STEPS) * STEPS
    rows = np.arange(-(-count // batch_size) * batch_size) % count
    x = {name: resized(data[name], padded)[rows] for name in ("inputs", "answer_mask")}
    found = model.predict(x, batch_size=batch_size, verbose=0)
    return np.asarray(found)[:count, :steps]


def resized(array: np.ndarray, steps: int) -> np.ndarray:
    """Truncates or zero-pads an array (N, T, …) to the given number of steps."""
    missing = steps - array.shape[1]
    if missing <= 0:
        return array[:, :steps]
    return np.pad(array, [(0, 0), (0, missing), *[(0, 0)] * (array.ndim - 2)])


def algorithm(name: str, *args: Any, **kwargs: Any) -> Callable[[], Bits]:
    """Returns a function that creates the `Bits` of a task of `datasets.algorithms`."""
    return lambda: Bits(getattr(algorithms, name), *args, **kwargs)
