"""Facts of a knowledge base by their key entity, and the memories of a question.

Shapes: F facts, E entities, H hops, M facts per memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class FactIndex:
    """Finds the facts about entities.

    Args:
        facts: integers (F, 3): the entity and the relation of the key, and the entity
            of the value. Entities start at 0 and relations at 1.
        relations: the number of relations, padding (0) included.

    Raises:
        ValueError: if the facts are not such integers.
    """

    def __init__(self, facts: np.ndarray, relations: int) -> None:
        facts = np.asarray(facts)
        if facts.ndim != 2 or facts.shape[1] != 3 or facts.dtype.kind not in "iu":
            raise ValueError(
                "`facts` must be integers (F, 3): key entity, relation and value "
                f"entity. Received: facts.shape={facts.shape}, dtype={facts.dtype}"
            )
        if not len(facts):
            raise ValueError("`facts` must hold at least one. Received: none")
        if facts.min() < 0:
            raise ValueError(
                f"`facts` must not be negative. Received: {facts.min()} in a fact"
            )
        first, last = facts[:, 1].min(), facts[:, 1].max()
        if first < 1 or last >= relations:
            raise ValueError(
                f"`facts` must have relations from 1 to {relations - 1}, as the model "
                f"has relations={relations}. Received: relations from {first} to {last}"
            )
        order = np.argsort(facts[:, 0], kind="stable")
        self.keys, self.relations, self.values = facts[order].T  # (F,)
        self.rows = order  # the row of `facts` of each sorted fact
        self.size = int(facts[:, [0, 2]].max()) + 1  # E
        self._starts = np.searchsorted(self.keys, np.arange(self.size + 1))

    def about(self, entities: np.ndarray, start: int) -> np.ndarray:
        """Returns sorted facts about `entities` that do not lead back to `start`."""
        low = self._starts[entities]
        counts = self._starts[entities + 1] - low
        ends = np.cumsum(counts)
        facts = np.arange(counts.sum()) + np.repeat(low - (ends - counts), counts)
        back = (self.values[facts] == start) & (self.keys[facts] != start)
        return facts[~back]


class Memories:
    """The memories of N questions, filled hop by hop.

    The question's entity has number 1 in the first memory. The values of a memory have
    the numbers 2, 3, …; the keys of the next memory refer to them.

    Attributes:
        keys: int32 (N, H, M, 2), the number of the key's entity, and the relation.
        values: int32 (N, H, M), the number of the value's entity.
        entities: int64 (N, H, M + 2), the entity of each number; −1 for none.
        facts: int64 (N, H, M), the sorted fact in each slot; −1 for none.
    """

    def __init__(self, index: FactIndex, number: int, hops: int, size: int) -> None:
        self._index = index
        self.keys = np.zeros((number, hops, size, 2), "int32")
        self.values = np.zeros((number, hops, size), "int32")
        self.entities = np.full((number, hops, size + 2), -1, "int64")
        self.facts = np.full((number, hops, size), -1, "int64")

    def inputs(self, questions: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the inputs of the graph of `hop_graph`."""
        return {"question": questions, "keys": self.keys, "values": self.values}

    def fill(self, n: int, hop: int, start: int, facts: np.ndarray) -> None:
        """Sets the memory of a hop of question n to at most M sorted facts."""
        index, count = self._index, len(facts)
        if hop:
            before = self.entities[n, hop - 1]  # ascending from number 2 on
            met = before[2:][before[2:] >= 0]
            entity = 2 + np.searchsorted(met, index.keys[facts])
        else:
            entity = np.ones(count, "int64")
        met, value = np.unique(index.values[facts], return_inverse=True)
        self.keys[n, hop, :count, 0] = entity
        self.keys[n, hop, :count, 1] = index.relations[facts]
        self.values[n, hop, :count] = 2 + value
        self.entities[n, hop, 1] = start if hop == 0 else -1
        self.entities[n, hop, 2 : 2 + len(met)] = met
        self.facts[n, hop, :count] = facts

    def chain(self, n: int, answer: int, scores: np.ndarray) -> np.ndarray:
        """Returns the facts that lead to the entity number `answer`, one per hop.

        Args:
            n: the question.
            answer: the number of an entity in the last memory.
            scores: (H, M), the scores of the keys.

        Returns:
            The rows (H,) of the facts; the fact of each hop has the best key among
            those that lead to the entity.
        """
        hops = len(scores)
        rows = np.full(hops, -1, "int64")
        for hop in reversed(range(hops)):
            fitting = self.values[n, hop] == answer  # (M,)
            slot = int(np.where(fitting, scores[hop], -np.inf).argmax())
            rows[hop] = self._index.rows[self.facts[n, hop, slot]]
            answer = int(self.keys[n, hop, slot, 0])
        return rows


def whole(
    name: str, x: Any, shape: tuple[int | None, ...], limit: int, least: int = 0
) -> np.ndarray:
    """Returns `x` as an array of integers from `least` to `limit` − 1 with a shape."""
    array = np.asarray(x)
    if not array.size:  # an empty list is float64
        array = array.astype("int64")
    fits = array.ndim == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, array.shape)
    )
    if not fits or array.dtype.kind not in "iu":
        wanted = ", ".join("·" if size is None else str(size) for size in shape)
        raise ValueError(
            f"`{name}` must be integers of shape ({wanted}). Received: "
            f"{name}.shape={array.shape}, dtype={array.dtype}"
        )
    if array.size and not least <= array.min() <= array.max() < limit:
        raise ValueError(
            f"`{name}` must hold ids of at least {least} and below {limit}. Received: "
            f"ids from {array.min()} to {array.max()}"
        )
    return array
