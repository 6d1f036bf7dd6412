"""A memory of very many facts, which a trained `MemNN` answers questions about.

Shapes: B questions, N facts, L words, D width, K hops; "·" stands for the features of a
sentence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attention.models.hashing import Hash, checked

BLOCK = 2**16  # facts that are embedded at a time


class Answers(NamedTuple):
    """What a `LargeMemory` answers.

    Attributes:
        words: int64 (B,), the words answered.
        facts: int64 (B, K), the facts found; −1 once there is nothing more.
        scored: int64 (B,), how many facts were scored, all hops together.
    """

    words: np.ndarray
    facts: np.ndarray
    scored: np.ndarray


class LargeMemory:
    """Facts that were embedded once, and are searched by what a `MemNN` has learned.

    Same parts, same answers as those of the model on a story of these facts; but the
    facts are stored with their embeddings, one question is answered after another, and
    with a hash only its candidates are scored. Made by `MemNN.remember`.

    Args:
        model: a `MemNN`, trained.
        facts: integers (N, L) in the order in which they were told; 0 is padding.
        index: a `WordHash` or `ClusterHash` of these facts; None to score all facts.

    Raises:
        ValueError: if the facts are not integers (N, L), or the index is not of
            these facts.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import MemNN
    >>> from keras_attention.models.hashing import WordHash
    >>> facts = np.array([[3, 1], [4, 1], [3, 2]])
    >>> model = MemNN(vocabulary_size=6, supports=1)
    >>> memory = model.remember(facts, WordHash(facts, max_share=0.5))
    >>> memory.answer(np.array([[5, 4]])).facts.tolist()
    [[1]]

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.3.
    """

    def __init__(self, model: Any, facts: np.ndarray, index: Hash | None) -> None:
        facts = checked(facts)
        if not len(facts):
            raise ValueError("`facts` must hold at least one. Received: none")
        if index is not None and index.size != len(facts):
            raise ValueError(
                "`index` must be a hash of the same facts. Received: "
                f"index.size={index.size}, len(facts)={len(facts)}"
            )
        self.index = index
        self.facts = facts
        self._model = model
        self._i, self._o, self._r = (model.get_layer(name) for name in "IOR")
        blocks = [facts[i : i + BLOCK] for i in range(0, len(facts), BLOCK)]
        width = self._i.ngrams * facts.shape[1]
        self._features = np.zeros((len(facts), width), "int32")
        self._keys = np.zeros((len(facts), self._o.embedding_dim), "float32")
        for n, block in enumerate(blocks):
            here = slice(n * BLOCK, n * BLOCK + len(block))
            self._features[here] = numpy(self._i(block))
            self._keys[here] = self._embedded(self._features[here])
        filled = (facts != 0).any(1)
        self._all = np.flatnonzero(filled)
        self._times = np.where(filled, np.cumsum(filled), -1)  # (N,)
        if model.adaptive:
            self._nothing = self._embedded(np.array([[self._i.size]]))[0]  # (D,)

    def answer(self, questions: np.ndarray) -> Answers:
        """Finds the facts, and answers by a word.

        Args:
            questions: integers (B, L), 0 is padding.

        Returns:
            `Answers`.
        """
        questions = np.asarray(questions)
        asked = self._i(questions)  # (B, ·)
        state = self._o.question(asked)  # (B, D)
        batch, hops = len(questions), self._o.supports
        found = np.full((batch, hops), -1)
        scored = np.zeros(batch, "int64")
        for hop in range(hops):
            query = self._o.embed(state)
            weights = numpy(self._o.weights_of_time(query))  # (B, 3)
            query = numpy(query)
            for b in range(batch):
                if hop == 0 or found[b, hop - 1] >= 0:
                    best, count = self._find(
                        query[b], weights[b], questions[b], found[b, :hop]
                    )
                    found[b, hop], scored[b] = best, scored[b] + count
            if hop + 1 < hops:
                state = self._o.add(state, hop, self._sentences(found[:, hop]))
        slots = np.where(found >= 0, np.arange(hops), -1)  # (B, K)
        memory = np.stack([self._sentences(found[:, h]) for h in range(hops)], axis=1)
        memory = np.pad(memory, ((0, 0), (0, 0), (1, 0)))  # (B, K, ·), no times needed
        words = numpy(self._r(asked, memory, slots)).argmax(-1)
        return Answers(words, found, scored)

    def _find(
        self, query: np.ndarray, weights: np.ndarray, words: np.ndarray, found: Any
    ) -> tuple[int, int]:
        """One hop for one question: the winner, or −1, and how many were scored."""
        slots = None
        if self.index is not None:
            text = np.concatenate([words, *self.facts[found]])
            slots = self.index.candidates(text)
        if slots is None:
            slots = self._all
            similar = (self._keys @ query)[slots]
        else:
            similar = self._keys[slots] @ query
        count = len(slots)
        if len(found):  # a fact is found once
            new = ~np.isin(slots, found)
            slots, similar = slots[new], similar[new]
        times = self._times[slots]
        if self._model.adaptive:  # m_∅ is older than all
            slots = np.concatenate([[-1], slots])
            similar = np.concatenate([[self._nothing @ query], similar])
            times = np.concatenate([[0], times])
        if not len(slots):
            return -1, count
        x = self._times[found[-1]] if len(found) else self._times.max() + 1
        return int(slots[last_of_one_pass(similar, weights, x, times)]), count

    def _embedded(self, features: np.ndarray) -> np.ndarray:
        return numpy(self._o.embed(self._o.candidate(features)))

    def _sentences(self, slots: np.ndarray) -> np.ndarray:
        """The features (B, ·) of some facts, (B,); none for −1."""
        return np.where(slots[:, None] >= 0, self._features[slots], 0)


def last_of_one_pass(
    similar: np.ndarray, weights: np.ndarray, x: int, times: np.ndarray
) -> int:
    """`ops.ranking.one_pass` over one row, by its few changes instead of its slots.

    Args:
        similar: s_O(x, mᵢ), numbers (N,).
        weights: of the three time features, (3,).
        x: when it was written what is asked with.
        times: when the memories were written, ascending integers (N,).

    Returns:
        The place of the memory that is left.
    """
    best = len(similar) - 1
    while True:
        older, time = times[:best], times[best]
        features = np.stack([x < older, np.full(best, x < time), older < time], -1)
        score = similar[:best] - similar[best] + features @ weights
        ahead = np.flatnonzero(score > 0)
        if not len(ahead):
            return best
        best = int(ahead[-1])


def numpy(tensor: Any) -> np.ndarray:
    """A tensor's numbers; those of half precision in float32."""
    array = ops.convert_to_numpy(tensor)
    return array.astype("float32") if array.dtype.itemsize == 2 else array
