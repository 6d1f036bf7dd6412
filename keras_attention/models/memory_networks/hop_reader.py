"""Reads a knowledge base hop by hop with a trained `KeyValueMemNN`.

Shapes: N questions, L words, F facts, H hops, M facts per memory, K answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.layers.base.arguments import number, positive
from keras_attention.models.memory_networks.fact_index import FactIndex, Memories, whole
from keras_attention.models.memory_networks.hop_answers import HopAnswers
from keras_attention.models.memory_networks.hop_graph import LENGTH, hop_graph
from keras_attention.models.memory_networks.key_value_memnn import KeyValueMemNN
from keras_attention.models.memory_networks.large_memory import to_numpy

BATCH = 64  # questions per call of the graph
CHUNK = 1024  # questions whose memories exist at the same time
FEW = 8  # questions for which the graph is not compiled


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


def known(start: int) -> np.ndarray:
    """Returns the entities at which to start: none if `start` is −1."""
    return np.array([start] if start >= 0 else [], "int64")
