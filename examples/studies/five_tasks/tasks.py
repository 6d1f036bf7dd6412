"""The five tasks: stories of facts, a question, and one or more answers.

All stories of a task have the same size. A story can be read in two ways:

- as a sequence: the words of the facts, the question, then one step for each answer.
  The input at an answer step is a word for its place: "first", "second", …
- as a memory: one slot for each fact. Each answer is a separate question with the word
  for its place. A memory network answers one question at a time.

Words are numbers from 1; 0 is padding and does not occur.

Shapes: N stories, F facts, W words of a fact, Q words of a question, K answers, S
supporting facts of an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from keras_attention.datasets import recall

Arrays = dict[str, np.ndarray]
Seed = Sequence[int]


class Stories(NamedTuple):
    """Stories of one task.

    Attributes:
        facts: int32 (N, F, W).
        question: int32 (N, Q); Q may be 0.
        answers: int32 (N, K).
        supports: int32 (N, K, S), the facts that prove each answer, in the order of
            reasoning; −1 after the last one.
    """

    facts: np.ndarray
    question: np.ndarray
    answers: np.ndarray
    supports: np.ndarray


class Task(NamedTuple):
    """A task.

    Attributes:
        description: one sentence for the results page.
        names: the number of words that facts and answers are made of.
        answers: K.
        guess: the accuracy of `rule`, from 0 to 1.
        rule: a guess that finds no fact and compares no facts.
        draw: a function of N and a random generator that returns `Stories`.
    """

    description: str
    names: int
    answers: int
    guess: float
    rule: str
    draw: Callable[[int, np.random.Generator], Stories]

    @property
    def vocabulary(self) -> int:
        """V: padding, the names, and a word for each place."""
        return 1 + self.names + self.answers

    def stories(self, count: int, seed: Seed) -> Stories:
        """Generates N stories."""
        return self.draw(count, np.random.default_rng(seed))

    def places(self, count: int) -> np.ndarray:
        """Returns the words for the places of the answers, int32 (N, K)."""
        words = 1 + self.names + np.arange(self.answers, dtype="int32")
        return np.broadcast_to(words, (count, self.answers))


def as_sequences(task: Task, stories: Stories) -> Arrays:
    """Returns "story" int32 (N, F W + Q) and "places" int32 (N, K)."""
    count = len(stories.facts)
    words = [stories.facts.reshape(count, -1), stories.question]
    return {
        "story": np.concatenate(words, axis=1),
        "places": np.array(task.places(count)),
    }


def as_questions(task: Task, stories: Stories) -> Arrays:
    """Returns one memory and question per answer.

    Returns:
        "story" int32 (N K, F, W), "question" int32 (N K, Q + 1) and "supporting_facts"
        int32 (N K, S).
    """
    count, number = stories.answers.shape
    repeated = np.repeat(stories.question, number, axis=0)
    places = task.places(count).reshape(-1, 1)
    return {
        "story": np.repeat(stories.facts, number, axis=0),
        "question": np.concatenate([repeated, places], axis=1),
        "supporting_facts": stories.supports.reshape(count * number, -1),
    }


FACTS, KEYS, VALUES = 16, 32, 16  # of recall
NODES = 16  # of two hops
SORTED, NUMBERS = 10, 40
COPIED, SYMBOLS = 16, 16
TREE, LABELS, DISTANCE = 10, 20, 4


def _recall(count: int, random: np.random.Generator) -> Stories:
    seed = int(random.integers(2**32))
    found = recall.generate(count, FACTS, seed, keys=KEYS, values=VALUES)
    return Stories(
        found.inputs["story"],
        found.inputs["question"],
        found.answers[:, None],
        found.places[:, None, None],
    )


def _two_hops(count: int, random: np.random.Generator) -> Stories:
    rows = np.arange(count)
    names = _distinct(random, count, NODES, KEYS)
    # One ring through all nodes: names[:, i] leads to names[:, i + 1].
    facts = np.stack([names, np.roll(names, -1, axis=1)], axis=-1)
    order = random.random((count, NODES)).argsort(-1)  # fact told at each place
    told = order.argsort(-1)  # place of each fact
    start = random.integers(0, NODES, count)
    second = (start + 1) % NODES
    return _int32(
        facts[rows[:, None], order],
        names[rows, start][:, None],
        names[rows, (start + 2) % NODES][:, None],
        np.stack([told[rows, start], told[rows, second]], axis=-1)[:, None],
    )


def _sort(count: int, random: np.random.Generator) -> Stories:
    numbers = _distinct(random, count, SORTED, NUMBERS)
    order = numbers.argsort(-1)
    answers = np.take_along_axis(numbers, order, axis=1)
    none = np.zeros((count, 0))
    return _int32(numbers[..., None], none, answers, order[..., None])


def _copy(count: int, random: np.random.Generator) -> Stories:
    symbols = random.integers(1, SYMBOLS + 1, (count, COPIED))
    places = np.broadcast_to(np.arange(COPIED), symbols.shape)
    none = np.zeros((count, 0))
    return _int32(symbols[..., None], none, symbols, places[..., None])


def _path(count: int, random: np.random.Generator) -> Stories:
    parents, between = _trees(2 * count, random)
    while len(parents) < count:  # few trees have no path of this length
        more = _trees(count, random)
        parents = np.concatenate([parents, more[0]])
        between = np.concatenate([between, more[1]])
    parents, path = parents[:count], between[:count]  # (N, TREE - 1), (N, ·)
    rows = np.arange(count)[:, None]
    labels = _distinct(random, count, TREE, LABELS)
    children = np.broadcast_to(np.arange(1, TREE), parents.shape)
    edges = labels[rows[..., None], np.stack([children, parents], axis=-1)]
    turned = random.random((count, TREE - 1, 1)) < 0.5
    edges = np.where(turned, edges[..., ::-1], edges)
    order = random.random((count, TREE - 1)).argsort(-1)  # edge told at each place
    told = order.argsort(-1)
    one, other = path[:, :-2], path[:, 1:-1]  # the first nodes of each proof
    above = np.concatenate([np.full((count, 1), -1), parents], axis=1)
    child = np.where(above[rows, one] == other, one, other)
    places = told[rows, child - 1]  # (N, K)
    needed = np.tri(DISTANCE - 1, dtype=bool)  # answer k needs the edges up to k
    supports = np.where(needed, places[:, None], -1)
    return _int32(
        edges[rows, order],
        labels[rows, path[:, [0, -1]]],
        labels[rows, path[:, 1:-1]],
        supports,
    )


def _trees(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Samples trees that have a path of `DISTANCE` edges, and one such path of each.

    Returns:
        The parent of each node from 1 on, (·, TREE − 1), and the nodes of the path,
        (·, DISTANCE + 1), for at most `count` trees.
    """
    rows = np.arange(count)
    parents = np.stack(
        [random.integers(max(n - 3, 0), n, count) for n in range(1, TREE)], axis=1
    )
    apart = np.zeros((count, TREE, TREE), int)
    for n in range(1, TREE):
        apart[:, n, :n] = apart[rows, parents[:, n - 1], :n] + 1
        apart[:, :n, n] = apart[:, n, :n]
    far = (apart == DISTANCE).reshape(count, -1)
    some = (far * random.random(far.shape)).argmax(-1)
    ends = np.stack(np.divmod(some, TREE), axis=1)
    exists = far.any(axis=1)
    rows, ends, apart = rows[: exists.sum()], ends[exists], apart[exists]
    path = [
        (
            (apart[rows, ends[:, 0]] == step)
            & (apart[rows, ends[:, 1]] == DISTANCE - step)
        ).argmax(-1)
        for step in range(DISTANCE + 1)
    ]
    return parents[exists], np.stack(path, axis=1)


def _distinct(
    random: np.random.Generator, count: int, number: int, names: int
) -> np.ndarray:
    """Samples rows of distinct words from 1 to `names`, (N, number)."""
    return 1 + random.random((count, names)).argsort(-1)[:, :number]


def _int32(*arrays: np.ndarray) -> Stories:
    return Stories(*(array.astype("int32") for array in arrays))


TASKS: dict[str, Task] = {
    "recall": Task(
        f"{FACTS} pairs of a key and a value; the value of one key",
        VALUES + KEYS,
        1,
        0.191,
        "the value that occurs most often",
        _recall,
    ),
    "two hops": Task(
        f"{NODES} pairs that form a ring; the name two steps after a name",
        KEYS,
        1,
        1 / NODES,
        "any name",
        _two_hops,
    ),
    "sort": Task(
        f"{SORTED} different numbers up to {NUMBERS}; the same in ascending order",
        NUMBERS,
        SORTED,
        0.404,
        "for each place, the number closest to the mean of this place",
        _sort,
    ),
    "copy": Task(
        f"{COPIED} of {SYMBOLS} symbols; the same in the same order",
        SYMBOLS,
        COPIED,
        0.191,
        "the symbol that occurs most often",
        _copy,
    ),
    "path": Task(
        f"the {TREE - 1} edges of a tree and two nodes {DISTANCE} edges apart; the "
        f"{DISTANCE - 1} nodes between them",
        LABELS,
        DISTANCE - 1,
        0.275,
        "the node on most edges that is not in the question",
        _path,
    ),
}
