"""Reads a knowledge base hop by hop with a trained `KeyValueMemNN`.

Shapes: N questions, L words, F facts, E entities, H hops, M facts per memory, K
answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_attention.layers.base.arguments import number, positive
from keras_attention.models.memory_networks.key_value_memnn import (
    LENGTH,
    KeyValueMemNN,
    hop_graph,
)
from keras_attention.models.memory_networks.large_memory import to_numpy

BATCH = 64  # questions per call of the graph
CHUNK = 1024  # questions whose memories exist at the same time
FEW = 8  # questions for which the graph is not compiled


class HopAnswers(NamedTuple):
    """The answers of a `HopReader`. N questions, H hops, K answers per question.

    Attributes:
        entities: int64 (N, K), the entities with the largest probabilities, best first;
            −1 after the last candidate.
        probabilities: float32 (N, K), their probabilities; 0 after the last candidate.
        facts: int64 (N, H), the rows of the facts that lead from the question's entity
            to the best answer, one per hop; −1 without an answer.
        read: int64 (N, H), the number of facts in the memory of each hop.
        cut: int64 (N, H), the number of candidate facts that did not fit.
    """

    entities: np.ndarray
    probabilities: np.ndarray
    facts: np.ndarray
    read: np.ndarray
    cut: np.ndarray


class HopReader:
    """Answers questions of several hops from a large knowledge base.

    Each hop of the `KeyValueMemNN` reads a memory of its own. The first memory holds
    the facts about the question's entity. The next one holds the facts about the
    entities that the last hop has read: those of at least `share` times the largest
    weight. If more than M facts are found, the M facts whose keys have the largest
    scores are kept; the softmax gives the others the smallest weights. The number of
    facts within H steps of the question's entity therefore does not matter. Facts that
    lead back to the question's entity are left out.

        pₕ = softmax(qₕᵀ k) over the facts of memory h,  o = Σᵢ pᵢ vᵢ
        qₕ₊₁ = Rₕ ([features of qₕ ; 0] + o)
        answer(y) = Σ softmax(q_H₊₁ᵀ [B r ; y]) over the facts of memory H with value y

    These are the equations of `KeyValueMemNN`, except that the state forgets the
    entities that the next memory does not have as keys. The weights are those of the
    model, and they depend neither on M nor on the knowledge base.

    Train `network`, which shares these weights, on the memories of `along`: each hop
    has a target. A relation path may be given, or searched in the knowledge base by
    the answers (`datasets.triples.find_path`).

    Args:
        model: a `KeyValueMemNN` with H hops and memories of M facts.
        facts: integers (F, 3), the key entity, the relation and the value entity of
            each fact, as from `KnowledgeBase.to_array`.
        memory_size: M, the maximum number of facts of each hop. Defaults to that of the
            model. Small memories train faster; large ones may answer with the weights.
        share: the smallest weight of an entity that is read on, relative to the largest
            weight.

    Attributes:
        network: a `keras.Model` with the inputs "question" (N, L), "keys" (N, H, M, 2)
            and "values" (N, H, M). Its output (N, H + 1, M + 2) has the weights of the
            entities of each memory in its hop, and then the probabilities of the
            answers.

    Raises:
        ValueError: if the model is not a `KeyValueMemNN`, the facts are not such
            integers, have more relations than the model, `memory_size` is below 1, or
            `share` is not between 0 and 1.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import HopReader, KeyValueMemNN
    >>> model = KeyValueMemNN(vocabulary_size=9, relations=3, hops=2, memory_size=4)
    >>> reader = HopReader(model, np.array([[0, 1, 1], [1, 2, 2]]))
    >>> reader.answer(np.array([[5, 3]]), np.array([0])).entities.tolist()
    [[2]]

    Reference:
        Miller, Fisch, Dodge, Karimi, Bordes & Weston, "Key-value memory networks for
        directly reading documents" (2016), section 3.1, "key hashing".
    """

    def __init__(
        self,
        model: Any,
        facts: np.ndarray,
        memory_size: int | None = None,
        share: float = 0.1,
    ) -> None:
        if not isinstance(model, KeyValueMemNN):
            raise ValueError(
                "`model` must be a `KeyValueMemNN`. Received: a model of the class "
                f"{type(model).__name__}"
            )
        if memory_size is not None:
            memory_size = positive("memory_size", memory_size)
        if not 0 <= number("share", share) <= 1:
            raise ValueError(
                f"`share` must be a number from 0 to 1. Received: share={share!r}"
            )
        self.model = model
        self.memory_size = model.memory_size if memory_size is None else memory_size
        self.share = float(share)
        self.index = FactIndex(facts, model.relations)
        self.network, self._states = hop_graph(model, self.memory_size)

    def answer(
        self, questions: np.ndarray, starts: np.ndarray, top: int = 1
    ) -> HopAnswers:
        """Answers questions about entities.

        Args:
            questions: integers (N, L), the words; 0 is padding.
            starts: integers (N,), the entity of each question; −1 for an unknown one.
            top: K, the maximum number of answers per question.

        Returns:
            `HopAnswers`.

        Raises:
            ValueError: if an id is not below its number of ids, a shape is wrong, or
                `top` is below 1.
        """
        questions, starts = self._checked(questions, starts)
        top = positive("top", top)
        parts = [
            self._answer(questions[i : i + CHUNK], starts[i : i + CHUNK], top)
            for i in range(0, len(questions), CHUNK)
        ]
        return HopAnswers(*map(np.concatenate, zip(*parts)))

    def along(
        self,
        questions: np.ndarray,
        starts: np.ndarray,
        paths: Sequence[Sequence[int] | None],
        answers: Sequence[Sequence[int]],
        seed: int = 0,
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Returns the data on which `network` is trained, along relation paths.

        Memory h holds the facts about the entities that the first h − 1 relations of
        the path lead to. If they are more than M, a random part is kept, of which at
        least half is on the path where possible. The target of a hop distributes 1
        over the facts with the path's relation. The last target distributes 1 over the
        right answers in the last memory. A target may be 0 everywhere; the
        cross-entropy is then 0.

        Args:
            questions: integers (N, L), the words; 0 is padding.
            starts: integers (N,), the entity of each question; −1 for an unknown one.
            paths: the relations of each question, one per hop; None to leave out the
                question.
            answers: the entities that answer each question.
            seed: the seed of the random choices.

        Returns:
            The inputs of `network`, and the targets, float32 (N, H + 1, M + 2), of
            the questions with a path.

        Raises:
            ValueError: if an id is not below its number of ids, a path does not have H
                relations, no question has a path, or the lengths differ.
        """
        questions, starts = self._checked(questions, starts)
        if not len(paths) == len(answers) == len(questions):
            raise ValueError(
                "`paths` and `answers` must have one entry per question. Received: "
                f"{len(paths)} and {len(answers)} for {len(questions)} questions"
            )
        used = [n for n, path in enumerate(paths) if path is not None]
        if not used:
            raise ValueError("`paths` must hold at least one path. Received: none")
        hops, size = self.model.hops, self.memory_size
        random = np.random.default_rng(seed)
        memories = Memories(self.index, len(used), hops, size)
        targets = np.zeros((len(used), hops + 1, size + 2), "float32")
        for i, n in enumerate(used):
            path = whole(f"paths[{n}]", paths[n], (hops,), self.model.relations)
            right = whole(f"answers[{n}]", answers[n], (None,), self.index.size)
            reached = known(starts[n])
            for hop, relation in enumerate(path):
                facts = self.index.about(reached, starts[n])
                facts = self._part(facts, relation, random)
                memories.fill(i, hop, starts[n], facts)
                on_path = self.index.relations[facts] == relation
                numbers = memories.values[i, hop, : len(facts)]
                np.add.at(targets[i, hop], numbers, on_path)
                reached = np.unique(self.index.values[facts[on_path]])
            targets[i, hops, 2:] = np.isin(memories.entities[i, -1, 2:], right)
        total = targets.sum(-1, keepdims=True)
        return memories.inputs(questions[used]), targets / np.maximum(total, 1)

    def _part(
        self, facts: np.ndarray, relation: int, random: np.random.Generator
    ) -> np.ndarray:
        """Returns at most M of the facts, in random order if there are more."""
        size = self.memory_size
        if len(facts) <= size:
            return facts
        facts = random.permutation(facts)
        first = self.index.relations[facts] == relation
        first &= np.cumsum(first) <= (size + 1) // 2
        return np.concatenate([facts[first], facts[~first]])[:size]

    def _answer(
        self, questions: np.ndarray, starts: np.ndarray, top: int
    ) -> tuple[np.ndarray, ...]:
        count, hops, size = len(questions), self.model.hops, self.memory_size
        memories = Memories(self.index, count, hops, size)
        scores = np.full((count, hops, size), -np.inf)
        cut = np.zeros((count, hops), "int64")
        for hop in range(hops):
            weights, features, codes = self._read(memories.inputs(questions))
            keys = self._relation_scores(features[:, hop], hop == 0)  # (N, R)
            for n in range(count):
                if hop:
                    reached, bonus = self._reached(
                        memories.entities[n, hop - 1],
                        weights[n, hop - 1],
                        codes[n, hop],
                    )
                else:
                    reached, bonus = known(starts[n]), np.zeros(1)
                facts = self.index.about(reached, starts[n])
                entity = np.searchsorted(reached, self.index.keys[facts])
                score = keys[n, self.index.relations[facts]] + bonus[entity]
                best = np.argsort(-score, kind="stable")[:size]
                memories.fill(n, hop, starts[n], facts[best])
                scores[n, hop, : len(best)] = score[best]
                cut[n, hop] = len(facts) - len(best)
        answers = self._read(memories.inputs(questions))[0][:, -1]  # (N, M + 2)
        answers[:, :2] = 0  # neither padding nor the question's own entity
        order = np.argsort(-answers, axis=1, kind="stable")[:, :top]  # (N, K)
        rows = np.arange(count)[:, None]
        probabilities = answers[rows, order]
        entities = np.where(probabilities > 0, memories.entities[rows, -1, order], -1)
        facts = np.full((count, hops), -1, "int64")
        for row in np.flatnonzero(entities[:, 0] >= 0).tolist():
            facts[row] = memories.chain(row, int(order[row, 0]), scores[row])
        read = (memories.values > 0).sum(-1)
        return entities, probabilities, facts, read, cut

    def _reached(
        self, entities: np.ndarray, weights: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the entities to read on, ascending, and the scores of their codes."""
        read = (entities >= 0) & (weights > 0) & (weights >= self.share * weights.max())
        read[:2] = False
        return entities[read], LENGTH * codes[read[2:]]

    def _read(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        if len(inputs["values"]) <= FEW:  # compilation takes longer
            return [np.array(to_numpy(part)) for part in self._states(inputs)]
        parts = self._states.predict(inputs, batch_size=BATCH, verbose=0)
        return [np.array(part, "float32") for part in parts]

    def _relation_scores(self, features: np.ndarray, is_asked: bool) -> np.ndarray:
        """Returns the scores (N, R) of a key's features for each relation."""
        numbers = np.arange(self.model.relations)
        about = self.model.get_layer("key_relations")(numbers)  # (R, D)
        mark = self.model.get_layer("own_entity")(np.array([int(is_asked)]))  # (1, D)
        return features @ (to_numpy(about) + to_numpy(mark)).T

    def _checked(
        self, questions: np.ndarray, starts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        questions = whole(
            "questions", questions, (None, None), self.model.vocabulary_size
        )
        if not len(questions):
            raise ValueError("`questions` must hold at least one. Received: none")
        starts = whole("starts", starts, (len(questions),), self.index.size, least=-1)
        return questions, starts


class FactIndex:
    """Finds the facts about entities in integers (F, 3), as `HopReader` has them.

    Entities start at 0 and relations at 1. Other facts raise a ValueError.
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
        """Returns the rows (H,) of the facts that lead to the entity number `answer`.

        The fact of each hop has the best key by `scores` (H, M) of those that lead
        there.
        """
        hops = len(scores)
        rows = np.full(hops, -1, "int64")
        for hop in reversed(range(hops)):
            fitting = self.values[n, hop] == answer  # (M,)
            slot = int(np.where(fitting, scores[hop], -np.inf).argmax())
            rows[hop] = self._index.rows[self.facts[n, hop, slot]]
            answer = int(self.keys[n, hop, slot, 0])
        return rows


def known(start: int) -> np.ndarray:
    """Returns the entities at which to start: none if `start` is −1."""
    return np.array([start] if start >= 0 else [], "int64")


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
