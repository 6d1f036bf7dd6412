"""Paths of relations: which one a question asks for, and what is at its end."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_attention.datasets.sizes import check_size
from keras_attention.datasets.triples.knowledge import KnowledgeBase
from keras_attention.datasets.triples.paths import path_ends
from keras_attention.datasets.triples.vectors import Vectors


class PathMemory(NamedTuple):
    """The output of `path_memory`.

    Attributes:
        keys: (M, 2) int32, the entity and the relation of each fact's key.
        values: (M,) int32, the entity of each fact's value.
        paths: The path of relations to each entity, by its number; () for entities that
            are not reached.
    """

    keys: np.ndarray
    values: np.ndarray
    paths: tuple[tuple[str, ...], ...]

    def inputs(self, questions: np.ndarray) -> dict[str, np.ndarray]:
        """Returns a network's inputs: each question, (N, L), with this memory."""
        number = len(questions)
        return {
            "question": questions,
            "keys": np.repeat(self.keys[None], number, axis=0),  # (N, M, 2)
            "values": np.repeat(self.values[None], number, axis=0),  # (N, M)
        }

    def extend(
        self, vectors: Vectors, paths: Sequence[tuple[str, ...]]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Appends each question again, with this memory in place of its own.

        Few entities may have both a relation and its inverse, such as a teacher who had
        a teacher. In this memory, all relations stand beside each other, so a network
        that is trained on it learns to tell them apart.

        Args:
            vectors: N questions.
            paths: The path that each question asks for, as `PathQuestion.path`; () for
                a question that is not to be repeated.

        Returns:
            The inputs and the answers of up to 2 N questions, for `fit`.

        Raises:
            ValueError: The numbers of questions and paths differ, the memories have
                different sizes, or a path is not in this memory.
        """
        if len(paths) != len(vectors.answers):
            raise ValueError(
                "`paths` must have one path per question. Received: "
                f"len(paths)={len(paths)}, len(answers)={len(vectors.answers)}"
            )
        if vectors.answers.shape[1] != len(self.paths):
            raise ValueError(
                "`vectors` must have memories of the same size. Received: "
                f"{vectors.answers.shape[1] - 2} and {len(self.values)} facts"
            )
        numbers = {path: number for number, path in enumerate(self.paths) if path}
        wrong = [path for path in paths if path and path not in numbers]
        if wrong:
            raise ValueError(
                f"`paths` must be paths of the memory. Received: {wrong[0]!r}"
            )
        rows = [row for row, path in enumerate(paths) if path]
        again = self.inputs(vectors.inputs["question"][rows])
        inputs = {n: np.concatenate([x, again[n]]) for n, x in vectors.inputs.items()}
        ends = [numbers[path] for path in paths if path]
        answers = np.zeros((len(rows), len(self.paths)), np.float32)
        answers[np.arange(len(rows)), ends] = 1
        return inputs, np.concatenate([vectors.answers, answers])

    def explain(
        self,
        knowledge: KnowledgeBase,
        entity: str,
        answer: str,
        probabilities: np.ndarray,
    ) -> tuple[tuple[str, ...], float]:
        """Returns the path by which an answer was probably found.

        Args:
            knowledge: The knowledge base.
            entity: The question's entity.
            answer: The answer of the network.
            probabilities: (M + 2,), the network's prediction for the question with
                this memory.

        Returns:
            Of the paths from the entity to the answer, the one with the largest
            probability, and this probability. If it is small, the words of the question
            ask for other relations. The path is () if there is none.

        Raises:
            ValueError: An entity is unknown.
        """
        order = np.argsort(-probabilities[: len(self.paths)], kind="stable")
        for number in order.tolist():
            path = self.paths[number]
            if path and answer in follow(knowledge, entity, path):
                return path, float(probabilities[number])
        return (), 0.0


def path_memory(
    knowledge: KnowledgeBase, memory_size: int, hops: int = 1
) -> PathMemory | None:
    """Makes a memory in which each path of relations leads to an entity of its own.

    A network always answers with an entity of the memory, also if no fact fits the
    question. In this memory every path that the facts allow is there once, so the
    answer shows which path the question asks for. If the question's entity has no such
    path, then the knowledge base has no answer.

    Args:
        knowledge: The knowledge base.
        memory_size: M of the network.
        hops: Maximum number of relations of a path, 1 or 2.

    Returns:
        `PathMemory`, or None if the paths need more than M facts.

    Raises:
        ValueError: A number is below 1, or `hops` is above 2.

    Example:
        ```python
        memory = path_memory(knowledge, memory_size=64)
        scores = model.predict(memory.inputs(vectors.inputs["question"]))
        print(memory.paths[scores[0].argmax()])  # ("directed_by",)
        ```
    """
    check_size("memory_size", memory_size)
    check_size("hops", hops)
    if hops > 2:
        raise ValueError(f"`hops` must be 1 or 2. Received: hops={hops}")
    index = {name: i for i, name in enumerate(knowledge.relations)}
    paths: list[tuple[str, ...]] = [(name,) for name in knowledge.relations[1:]]
    if hops == 2:
        paths += sorted(_pairs(knowledge), key=lambda path: [index[n] for n in path])
    if len(paths) > memory_size:
        return None
    keys = np.zeros((memory_size, 2), np.int32)
    values = np.zeros(memory_size, np.int32)
    numbers = {(): 1, **{path: number for number, path in enumerate(paths, 2)}}
    for slot, path in enumerate(paths):
        keys[slot] = numbers[path[:-1]], index[path[-1]]
        values[slot] = numbers[path]
    unused = ((),) * (memory_size - len(paths))
    return PathMemory(keys, values, ((), (), *paths, *unused))


def _pairs(knowledge: KnowledgeBase) -> set[tuple[str, ...]]:
    """Returns the paths of two relations that do not only lead back."""
    pairs: set[tuple[str, ...]] = set()
    names = knowledge.relations
    inverse = {names[i]: names[knowledge.inverse(i)] for i in range(1, len(names))}
    for entity in knowledge.entities:
        counts = Counter(fact.relation for fact in knowledge.facts_about(entity))
        for back in counts:
            first = inverse[back]
            pairs.update(
                (first, second)
                for second, count in counts.items()
                if second != back or count > 1
            )
    return pairs


def follow(
    knowledge: KnowledgeBase, entity: str, path: tuple[str, ...]
) -> tuple[str, ...]:
    """Returns the entities at the end of a path, without the entity at its start.

    Args:
        knowledge: The knowledge base.
        entity: The start.
        path: Relations, or inverse relations with a `!` prefix.

    Raises:
        ValueError: The entity or a relation is unknown.

    Example:
        ```python
        follow(knowledge, "Heat", ("directed_by", "!directed_by"))
        ```
    """
    for relation in path:
        if relation not in knowledge.relations[1:]:
            raise ValueError(
                "`path` must hold relations of the knowledge base, which are "
                f"{', '.join(knowledge.relations[1:])}. Received: {relation!r}"
            )
    numbers = [knowledge.relations.index(relation) for relation in path]
    ends = path_ends(knowledge, entity, numbers)
    return tuple(knowledge.entities[end] for end in ends)
