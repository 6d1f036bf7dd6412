"""Problems of block puzzles and bAbI, and their scores."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import babi, blocks
from studies.blocks import supervised
from studies.blocks.wording import renamed
from studies.dnc.problems import PARTS, Arrays, Lesson, Seed, predicted, seed_of
from studies.dnc.sequences import sequence_vocabulary, sequences

BLANKS = 3  # number of steps between a bAbI question and its answer
SHORTER = 0.6  # maximum length of a lesson of first questions, relative to stories
FIRST_BAR = 0.95  # score that ends a lesson of the task that is trained first
FRESH = 4  # one of `FRESH` training puzzles is new


class Puzzles:
    """Block puzzles. The answers are the moves that reach the requested goal.

    Puzzles are slow to generate, so most training puzzles are reused with new block
    numbers and goal letters.

    Args:
        lessons: arguments of `blocks.draw_puzzles`, lesson by lesson.
    """

    width: int | None = 97
    vocabulary: int | None = None
    outputs = len(blocks.MOVES) + 1
    bars: Sequence[float] = ()
    beyond: Lesson | None = None

    def __init__(self, lessons: Sequence[Lesson]) -> None:
        self.lessons = lessons
        self.tests: Mapping[str, Lesson] = {
            f"lesson {number}": lesson for number, lesson in enumerate(lessons, 1)
        }
        self.loss: keras.losses.Loss = keras.losses.CategoricalCrossentropy(
            from_logits=True
        )
        self._seen: dict[int, list[blocks.Puzzle]] = {}
        self._sampled: list[tuple[int, int, Seed]] = []

    def draw(self, lesson: Lesson, count: int, seed: Seed, part: str) -> Any:
        """Generates puzzles. Puzzles of validation and test are never in training."""
        seed = seed_of(part, seed)
        if part != "train":
            return self._arrays(
                blocks.draw_puzzles(count, **lesson, split="test", seed=seed)
            )
        number = self.lessons.index(lesson)
        seen = self._seen.setdefault(number, [])
        fresh = max(count // FRESH, min(count, 8 * count - len(seen)))
        self._add(number, fresh, seed)
        random = np.random.default_rng(seed)
        rows = random.integers(0, len(seen), count)
        return self._arrays([_retold(seen[row], random) for row in rows])

    def _add(self, number: int, fresh: int, seed: Seed) -> None:
        """Generates training puzzles of a lesson, to be used several times."""
        lesson = self.lessons[number]
        self._seen.setdefault(number, []).extend(
            blocks.draw_puzzles(fresh, **lesson, split="train", seed=seed)
        )
        self._sampled.append((number, fresh, seed))

    def state(self) -> Any:
        """Returns the lesson, number and seed of all generated training puzzles."""
        return self._sampled

    def restore(self, state: Any) -> None:
        """Generates the same training puzzles again."""
        self._seen, self._sampled = {}, []
        for number, fresh, seed in state:
            self._add(number, fresh, seed)

    def _arrays(self, puzzles: list[blocks.Puzzle]) -> Any:
        return {**supervised.vectorize(puzzles), "puzzles": puzzles}

    def score(
        self, model: keras.Model, data: Any, batch_size: int = 64
    ) -> dict[str, float]:
        """Returns the share of solved boards, and of those with the fewest moves."""
        played = supervised.play(
            lambda x: predicted(model, x, batch_size), data["puzzles"]
        )
        return {
            "solved": float(played.verdict.solved.mean()),
            "fewest moves": float(played.verdict.fewest.mean()),
        }


class Stories:
    """A bAbI task with 10,000 training questions and one story per sequence.

    A tenth of the stories is held out for validation.

    Args:
        task: from 1 to 20.
        renamed: whether to exchange interchangeable words in each training story. The
            exchange is random and new each time.
        first: a task to train before `task`, or None. `task` itself means None.
    """

    width: int | None = None
    beyond: Lesson | None = None

    def __init__(
        self, task: int, renamed: bool = False, first: int | None = None
    ) -> None:
        self.tests: Mapping[str, Lesson] = {"test": {}}
        numbers = [task] if first in (None, task) else [first, task]
        train = {number: babi.load(number, "train", "10k") for number in numbers}
        test = {number: babi.load(number, "test", "10k") for number in numbers}
        examples = [*train.values(), *test.values()]
        words = sequence_vocabulary([one for part in examples for one in part])
        self._test = sequences(test[task], words, blanks=BLANKS)
        self._train: dict[int, Arrays] = {}
        self._held: dict[int, Arrays] = {}
        lessons: list[Lesson] = []
        for number in numbers:
            data = sequences(train[number], words, blanks=BLANKS)
            order = np.random.default_rng(0).permutation(len(data["lengths"]))
            held, used = np.split(order, [len(order) // 10])
            self._held[number] = {name: array[held] for name, array in data.items()}
            self._train[number] = {name: array[used] for name, array in data.items()}
            lessons += [{"task": number, **lesson} for lesson in _lessons(data)]
        self.lessons: Sequence[Lesson] = lessons
        self.bars: Sequence[float] = [
            FIRST_BAR for lesson in lessons if lesson["task"] != task
        ]
        self.vocabulary: int | None = len(words)
        self.outputs = len(words)
        self._renamer = None
        if renamed:
            groups = {number: babi.interchangeable(train[number]) for number in numbers}
            self._renamer = babi.Renamer(groups, words)
        self.loss: keras.losses.Loss = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True
        )

    def draw(self, lesson: Lesson, count: int, seed: Seed, part: str) -> Any:
        """Generates stories, in training and validation truncated to the lesson."""
        if part == "test":
            return self._test
        number = lesson["task"]
        if part == "validation":
            return up_to(self._held[number], lesson["questions"])
        data = self._train[number]
        stories = len(data["lengths"])
        rows = np.random.default_rng(seed_of(part, seed)).choice(stories, count)
        samples = {name: array[rows] for name, array in data.items()}
        if self._renamer is not None:
            tasks, targets = np.full(count, number), samples["targets"]
            seed = [*seed_of(part, seed), len(PARTS)]
            samples["inputs"], samples["targets"], _ = self._renamer(
                tasks, samples["inputs"], targets, targets[:, 0], seed=seed
            )
        return up_to(samples, lesson["questions"])

    def score(
        self, model: keras.Model, data: Any, batch_size: int = 64
    ) -> dict[str, float]:
        """Returns the share of the questions whose answer words are all correct."""
        words = predicted(model, data, batch_size).argmax(-1)
        asked = data["answer_mask"]
        wrong = data["question"][asked & (words != data["targets"])]
        questions = np.unique(data["question"][asked])
        return {"answers": 1 - len(np.unique(wrong)) / len(questions)}


def _retold(puzzle: blocks.Puzzle, random: np.random.Generator) -> blocks.Puzzle:
    """Renames a training puzzle so that the result is not in the test split."""
    while True:
        told = renamed(puzzle, random)
        if not blocks.is_of_the_test(told):
            return told


def _lessons(data: Arrays) -> list[Lesson]:
    """Returns the lessons, from few questions to all questions.

    Lessons with one and two questions are included if they are much shorter.
    """
    most = int(places(data).max())
    longest = SHORTER * data["lengths"].mean()
    lessons: list[Lesson] = [
        {"questions": number}
        for number in (1, 2)
        if number < most and up_to(data, number)["lengths"].mean() <= longest
    ]
    return [*lessons, {"questions": most}]


def places(data: Arrays) -> np.ndarray:
    """Returns the number of the question at each answer step, from 1, (N, T)."""
    question = data["question"]
    before = np.pad(question, [(0, 0), (1, 0)], constant_values=-1)[:, :-1]
    return np.cumsum((question >= 0) & (question != before), axis=1)


def up_to(data: Arrays, questions: int | np.ndarray) -> Arrays:
    """Truncates stories of `sequences` after `questions` questions.

    Args:
        data: N stories.
        questions: one number, or the number of each story, (N, 1).
    """
    asked = data["answer_mask"] & (places(data) <= questions)  # (N, T)
    times = np.arange(asked.shape[1])
    lengths = np.where(asked, times + 1, 0).max(1)
    return {
        "inputs": np.where(times < lengths[:, None], data["inputs"], 0),
        "answer_mask": asked,
        "targets": np.where(asked, data["targets"], 0),
        "question": np.where(asked, data["question"], -1),
        "lengths": lengths,
    }


def puzzles(lessons: Sequence[Lesson]) -> Callable[[], Puzzles]:
    """Returns a function that creates the block puzzles."""
    return functools.partial(Puzzles, lessons)
