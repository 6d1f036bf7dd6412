"""Problems of graphs and their scores: walks, shortest paths and relations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.datasets import graphs
from studies.dnc.problems import Arrays, Lesson, Seed, predicted, seed_of


@keras.saving.register_keras_serializable(package="studies")
class Softmaxes(keras.losses.Loss):
    """Sum of the cross-entropies of groups of `size` logits, each with one target."""

    def __init__(self, size: int, name: str = "softmaxes") -> None:
        super().__init__(name=name)
        self.size = size

    def call(self, y_true: Any, y_pred: Any) -> Any:
        shape = (*ops.shape(y_pred)[:-1], y_pred.shape[-1] // self.size, self.size)
        logs = ops.log_softmax(ops.reshape(y_pred, shape), axis=-1)
        return -ops.sum(ops.reshape(y_true, shape) * logs, axis=(-2, -1))  # (B, T)

    def get_config(self) -> dict[str, Any]:
        return {"size": self.size, "name": self.name}


class Triples:
    """A task of `datasets.graphs`. Answers are triples of labels, nine digits in all.

    Args:
        draw: `graphs.traversal`, `graphs.shortest_path` or `graphs.family_tree`.
        lessons: the arguments of `draw`, lesson by lesson.
        tests: the arguments of `draw` by test name.
        hinted: whether training also asks for the answers on the way; see `hinted`. The
            inputs stay the same, and validation and test have no such targets.
    """

    width: int | None = 92
    vocabulary: int | None = None
    outputs = 90
    bars: Sequence[float] = ()
    beyond: Lesson | None = None

    def __init__(
        self,
        draw: Callable[..., dict[str, Any]],
        lessons: Sequence[Lesson],
        tests: Mapping[str, Lesson],
        hinted: bool = False,
    ) -> None:
        self.lessons: Sequence[Lesson] = lessons
        self.tests: Mapping[str, Lesson] = tests
        self.loss: keras.losses.Loss = Softmaxes(10)
        self._draw, self._hinted = draw, hinted

    def draw(self, lesson: Lesson, count: int, seed: Seed, part: str) -> Any:
        """Generates graphs with their questions, at most `most` if a test has it."""
        arguments = {**lesson}
        count = min(count, arguments.pop("most", count))
        data = self._draw(count, **arguments, seed=seed_of(part, seed))
        return hinted(data) if self._hinted and part == "train" else data

    def score(
        self, model: keras.Model, data: Any, batch_size: int = 64
    ) -> dict[str, float]:
        """Returns the shares of correct walks and triples.

        Shortest paths have the scores of `play`. Questions about families have the
        shares of correct answers, and of correct relatives alone.
        """
        if "destination" in data:
            return self._played(model, data, batch_size)
        answers = graphs.decode(predicted(model, data, batch_size))  # (N, T, 3)
        asked = data["answer_mask"]
        same = answers == graphs.decode(data["targets"])
        right = same.all(-1)
        if "paths" in data:
            relatives = float(same[..., 2][asked].mean())
            return {"answers": float(right[asked].mean()), "relatives": relatives}
        walks = (right | ~asked).all(-1)
        return {"walks": float(walks.mean()), "triples": float(right[asked].mean())}

    def _played(
        self, model: keras.Model, data: Any, batch_size: int
    ) -> dict[str, float]:
        def answer(x: Arrays) -> np.ndarray:
            return predicted(model, x, batch_size)

        random = np.random.default_rng(0)

        def guess(x: Arrays) -> np.ndarray:
            return random.normal(size=(*x["answer_mask"].shape, self.outputs))

        verdict = graphs.play(answer, data).verdict
        return {
            "shortest": float(verdict.shortest.mean()),
            "valid": float(verdict.valid.mean()),
            "shortest by chance": float(
                graphs.play(guess, data).verdict.shortest.mean()
            ),
        }


def hinted(data: dict[str, Any]) -> dict[str, Any]:
    """Adds targets to the steps before the answers.

    A question about a walk gets the triples of the walk, each at the step that names
    its edge. A question about a family gets the triples of the basic relations, one a
    step, from the step of the question on.
    """
    asked, targets = data["answer_mask"].copy(), data["targets"].copy()  # (N, T, …)
    if "paths" in data:
        row, query, place = np.nonzero(data["paths"][..., 0] >= 0)
        step = data["questions"][row, query] + place
        triples = graphs.encode(data["paths"][row, query, place])
        free = ~asked[row, step]
        row, step, triples = row[free], step[free], triples[free]
    else:
        row, step = np.nonzero(asked)
        triples = targets[row, step]
        step = step - data["answer_mask"].sum(1)[row]  # as long as the answer
    asked[row, step], targets[row, step] = True, triples
    return {**data, "answer_mask": asked, "targets": targets}


def walks(
    name: str,
    lessons: Sequence[graphs.Lesson],
    tested: Sequence[int],
    hinted: bool = False,
    of: Sequence[graphs.Lesson] | None = None,
) -> Callable[[], Triples]:
    """Returns a function that creates the `Triples` of a task of `datasets.graphs`.

    Args:
        name: `"traversal"` or `"shortest_path"`.
        lessons: the lessons of the training.
        tested: the numbers of the tested lessons, counted from 1.
        hinted: see `Triples`.
        of: the lessons that `tested` counts; None for those of the training.
    """
    of = lessons if of is None else of
    tests = {f"lesson {number}": of[number - 1]._asdict() for number in tested}
    arguments = [lesson._asdict() for lesson in lessons]
    return functools.partial(Triples, getattr(graphs, name), arguments, tests, hinted)


def on_the_map(
    of: Callable[[], Any],
    maps: Mapping[str, tuple[float, int]],
    length: int,
    most: int = 256,
) -> Callable[[], Triples]:
    """Returns a function that creates a task, tested on the Underground as well.

    Args:
        of: a function that creates the task. Only its tests change.
        maps: the arguments of `graphs.load_underground` by name.
        length: the number of edges of the tested paths.
        most: the largest number of questions about a map.
    """

    def problem() -> Triples:
        made = of()
        lesson = {"length": (length, length), "most": most}
        tests = {
            f"{name}, {length} stops": {
                **lesson,
                "network": graphs.load_underground(*a),
            }
            for name, a in maps.items()
        }
        made.tests = {**made.tests, **tests}
        return made

    return problem


def families(
    lessons: Sequence[Lesson], people: tuple[int, int]
) -> Callable[[], Triples]:
    """Returns a function that creates the questions about families.

    Args:
        lessons: the lessons of the training.
        people: the sizes of the tested families.
    """
    rest = {**lessons[-1], "people": people}
    tests = {f"{n} relations": {**rest, "length": n} for n in range(1, 6)}
    tests["2 to 5 relations"] = {**rest, "length": (2, 5)}
    return functools.partial(Triples, graphs.family_tree, lessons, tests, True)
