"""What the algorithms ask of a network, and how much of its answer is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import keras
import numpy as np

from keras_attention.datasets import algorithms

Arrays = dict[str, np.ndarray]
Lesson = Mapping[str, Any]
Seed = Sequence[int]


class Problem(Protocol):
    """What a network is trained on, and how its answers are counted.

    Attributes:
        width: D, of the vectors that are read; None for tokens.
        vocabulary: how many tokens there are; None for vectors.
        outputs: V, of the logits.
        lessons: arguments of `draw`, from the easiest to the one that is meant.
        tests: arguments of `draw` by the name of what is tested.
        bars: the scores that end the first lessons, where the settings' `bar` is not
            meant for them.
        beyond: arguments of `draw` of sequences longer than any to train on, by which
            the last lesson is judged as well; None for none.
        loss: of the logits at the steps to answer at.
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
        """`count` sequences of the part "train", "validation" or "test".

        Returns:
            A dictionary with "inputs" (N, T, D) or (N, T), "answer_mask" (N, T),
            "targets" (N, T, …), "lengths" (N,), and whatever `score` reads.
        """

    def score(
        self, model: keras.Model, data: Any, batch_size: int = 64
    ) -> dict[str, float]:
        """Shares from 0 to 1 of what is right; the first one is what lessons go by."""


class Bits:
    """A task of `datasets.algorithms`: bits to write, scored one by one.

    Args:
        draw: the function that draws it.
        lessons: its arguments, lesson by lesson.
        tests: its arguments by the name of a test; by default the last lesson's.
        beyond: its arguments for sequences longer than those to train on, or None.
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
        """Sequences of a seed; those of the three parts are drawn independently."""
        return self._draw(count, **lesson, seed=seed_of(part, seed))

    def score(
        self, model: keras.Model, data: Arrays, batch_size: int = 64
    ) -> dict[str, float]:
        """How many bits are right, and how many sequences without one wrong bit."""
        right = (predicted(model, data, batch_size) > 0) == (
            data["targets"] > 0.5
        )  # (N, T, V)
        asked = data["answer_mask"]
        whole = (right.all(-1) | ~asked).all(-1)
        return {"bits": float(right[asked].mean()), "sequences": float(whole.mean())}


PARTS = ("train", "validation", "test")


def seed_of(part: str, seed: Seed) -> Seed:
    """A seed that no other part has; zeros at its end would not tell two apart."""
    return [1 + PARTS.index(part), *seed]


STEPS = 16  # sequences to predict are padded to a multiple of it


def predicted(model: keras.Model, data: Arrays, batch_size: int) -> np.ndarray:
    """The logits (N, T, V) of sequences, which may come in any number and length."""
    count, steps = data["answer_mask"].shape
    padded = -(-steps // STEPS) * STEPS
    rows = np.arange(-(-count // batch_size) * batch_size) % count
    x = {name: resized(data[name], padded)[rows] for name in ("inputs", "answer_mask")}
    found = model.predict(x, batch_size=batch_size, verbose=0)
    return np.asarray(found)[:count, :steps]


def resized(array: np.ndarray, steps: int) -> np.ndarray:
    """An array (N, T, …) with so many steps: cut, or filled up with zeros behind."""
    missing = steps - array.shape[1]
    if missing <= 0:
        return array[:, :steps]
    return np.pad(array, [(0, 0), (0, missing), *[(0, 0)] * (array.ndim - 2)])


def algorithm(name: str, *args: Any, **kwargs: Any) -> Callable[[], Bits]:
    """Makes the problem of one of the functions of `datasets.algorithms`."""
    return lambda: Bits(getattr(algorithms, name), *args, **kwargs)
