"""Paths of relations in a knowledge base, searched by the answers of a question."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from keras_attention.datasets.sizes import check_size
from keras_attention.datasets.triples.knowledge import KnowledgeBase


class FoundPath(NamedTuple):
    """The output of `find_path`.

    Attributes:
        relations: The relations of the path, indices into `KnowledgeBase.relations`.
        ends: The entities at its end, indices into `KnowledgeBase.entities`, ascending.
        share: The share of the ends that are right answers: the accuracy of guessing
            among them.
    """

    relations: tuple[int, ...]
    ends: tuple[int, ...]
    share: float


def path_ends(
    knowledge: KnowledgeBase, entity: str, relations: Sequence[int]
) -> list[int]:
    """Returns the entities that a path of relations leads to.

    The path does not lead back to the start entity. The entities are indices into
    `KnowledgeBase.entities`, in the order in which they are first reached.

    Args:
        knowledge: The knowledge base.
        entity: The start entity.
        relations: Indices into `KnowledgeBase.relations`, one per hop.

    Raises:
        ValueError: The entity is unknown.

    Example:
        ```python
        relation = knowledge.relations.index("directed_by")
        path_ends(knowledge, "Heat", [relation])  # the directors of Heat
        ```
    """
    start = knowledge.index(entity)
    reached = [start]
    for relation in relations:
        onward = (
            value
            for key in reached
            for name, value in knowledge.pairs(key)
            if name == relation and (value != start or key == start)
        )
        reached = list(dict.fromkeys(onward))
    return reached


def find_path(
    knowledge: KnowledgeBase, entity: str, answers: Iterable[str], hops: int
) -> FoundPath | None:
    """Finds the path of relations whose ends are most like the answers of a question.

    The likeness of two sets is the size of their intersection divided by the size of
    their union (the Jaccard index). Among equal paths, the one whose relations
    come first is returned. Such paths may replace labels for training:
    the questions of MetaQA only have answers. A path does not lead back to the
    start entity.

    Args:
        knowledge: The knowledge base.
        entity: The start entity.
        answers: The names of the right answers; unknown names are ignored.
        hops: The number of relations of the path.

    Returns:
        `FoundPath`, or None if no path ends at an answer.

    Raises:
        ValueError: The entity is unknown, or `hops` is below 1.

    Example:
        ```python
        path = find_path(knowledge, "Heat", ["Thief", "The Insider"], hops=2)
        [knowledge.relations[r] for r in path.relations]
        # ["directed_by", "!directed_by"]
        ```
    """
    check_size("hops", hops)
    start = knowledge.index(entity)
    right = {knowledge.index(name) for name in answers if name in knowledge}
    if not right:
        return None
    leading = {knowledge.inverse(r) for end in right for r in knowledge.values(end)}
    ends: dict[tuple[int, ...], set[int]] = {(): {start}}
    for hop in range(hops):
        onward: dict[tuple[int, ...], set[int]] = {}
        for path, entities in ends.items():
            by_relation: dict[int, set[int]] = {}
            for key in entities:
                values = knowledge.values(key)
                for relation in leading if hop + 1 == hops else values:
                    if relation in values:
                        reached = by_relation.setdefault(relation, set())
                        reached.update(values[relation])
            from_start = knowledge.values(start) if start in entities else {}
            for relation, reached in by_relation.items():
                if start not in from_start.get(relation, ()):
                    reached.discard(start)
                onward[(*path, relation)] = reached
        ends = onward
    fitting = {path: e for path, e in ends.items() if not right.isdisjoint(e)}
    if not fitting:
        return None
    best = max(
        sorted(fitting), key=lambda p: len(right & fitting[p]) / len(right | fitting[p])
    )
    best_ends = fitting[best]
    return FoundPath(
        best, tuple(sorted(best_ends)), len(right & best_ends) / len(best_ends)
    )
