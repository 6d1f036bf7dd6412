"""A memory of very many facts, queried by a trained `MemNN`.

Shapes: B questions, N facts, L words, D width, K hops, F features; "·" denotes the
features of a sentence.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np

from keras_attention.layers.base.checked import check_ids
from keras_attention.models.base.candidate_index import (
    CandidateIndex,
    checked_candidates,
)
from keras_attention.models.base.vector_index import VectorIndex
from keras_attention.models.memory_networks.answers import Answers
from keras_attention.models.memory_networks.fact_segments import (
    check_append,
    check_questions,
    check_size,
    joined_facts,
)
from keras_attention.models.memory_networks.hashing import Hash, checked, merging
from keras_attention.models.memory_networks.memory_folder import (
    Stored,
    about,
    build,
    check_model,
    narrowest,
    read,
    save,
)
from keras_attention.models.memory_networks.one_pass import last_of_one_pass
from keras_attention.models.memory_networks.sentence_keys import SentenceKeys, to_numpy

BLOCK = 2**16  # facts scored at a time


class LargeMemory:
    """Stores very many facts, and answers questions by a trained `MemNN`.

    The answers equal those of the model on a story of these facts. Only the words of
    the facts are stored, in integers of the smallest size. Embeddings are computed when
    a question needs them. Questions are answered one by one. With an index, only its
    candidates are scored.

    `MemNN.remember` makes a memory of an array. `build` makes one on the disk from a
    stream of facts. `save` writes a memory to a folder, and `load` maps the files of
    this folder: only what a question needs is read. `append` adds facts. A memory on
    the disk is changed there at once.

    A fact may occur more than once. The memory keeps all copies, and a question may
    find the same words in several hops.

    Args:
        model: a trained `MemNN`.
        facts: integers (N, L) in chronological order; 0 is padding.
        index: a `WordHash` or `ClusterHash` of these facts, or another
            `CandidateIndex`; None to score all facts. A `VectorIndex` is set later:
            `memory.index = VectorIndex(memory)`.

    Raises:
        ValueError: if the facts are not integers (N, L), the index was built from
            another number of facts, or the model has features other than words and
            n-grams.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import MemNN
    >>> from keras_attention.models import WordHash
    >>> facts = np.array([[3, 1], [4, 1], [3, 2]])
    >>> model = MemNN(vocabulary_size=6, supports=1)
    >>> memory = model.remember(facts, WordHash(facts, max_share=0.5))
    >>> memory.answer(np.array([[5, 4]])).facts.tolist()
    [[1]]

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.3.
    """

    def __init__(
        self, model: Any, facts: np.ndarray, index: CandidateIndex | None = None
    ) -> None:
        facts = checked(facts)
        if not len(facts):
            raise ValueError("`facts` must hold at least one. Received: none")
        check_ids("facts", facts, model.vocabulary_size)
        check_size(index, len(facts))
        narrow = facts.astype(narrowest(model.vocabulary_size), copy=False)
        self._set(model, [narrow], None)
        self.index = index

    def _set(
        self,
        model: Any,
        segments: list[np.ndarray],
        index: CandidateIndex | None,
        stored: Stored | None = None,
    ) -> None:
        self._index: Any = index
        self._model, self._sentences = model, SentenceKeys(model)
        self._finder, self._responder = model.get_layer("O"), model.get_layer("R")
        self._set_segments(segments)
        self._stored = stored

    def _set_segments(self, segments: list[np.ndarray]) -> None:
        self._segments = segments  # of consecutive facts, (N, L)
        self._starts = np.cumsum([0, *map(len, segments)])
        self._digest: str | None = None

    @property
    def size(self) -> int:
        """N, the number of facts."""
        return int(self._starts[-1])

    @property
    def index(self) -> CandidateIndex | None:
        """What selects the facts to score; None scores all facts. It may be replaced.

        Raises:
            ValueError: if the new index has another size, or is a `VectorIndex` of
                other keys.
        """
        return self._index

    @index.setter
    def index(self, index: CandidateIndex | None) -> None:
        check_size(index, self.size)
        if isinstance(index, VectorIndex):
            index.check_keys(self)
        self._index = index

    @classmethod
    def build(
        cls,
        path: str | os.PathLike[str],
        model: Any,
        facts: np.ndarray | Iterable[np.ndarray],
        max_share: float | None = 0.01,
        budget: int | None = None,
        verbose: int | str = "auto",
    ) -> Self:
        """Builds a memory on the disk, with a `WordHash`, from a stream of facts.

        Only a block of facts is in memory at a time. If the process ends early, or the
        disk is full, a memory that was in the folder before is still there.

        Args:
            path: the folder of the memory. A saved memory in it is replaced at the end.
            model: a trained `MemNN`.
            facts: an iterable of integers (n, L) in chronological order, such as a
                generator; or integers (N, L), such as an array that NumPy has mapped
                from a file. 0 is padding. L may differ between the blocks.
            max_share: see `WordHash`; None for no hash.
            budget: see `WordHash`.
            verbose: "auto" or 1: shows a progress bar; 0: shows nothing; 2: one line
                for each bar.

        Returns:
            The `LargeMemory`, as `load` returns it.

        Raises:
            OSError: if the files cannot be written.
            ValueError: for facts that are not integers (n, L) ≥ 0 below
                `model.vocabulary_size`, no fact, or another wrong argument.
        """
        sentences = SentenceKeys(model)  # raises for an unsupported model
        build(
            path,
            facts,
            about(model, sentences.fingerprint),
            {"max_share": max_share, "budget": budget},
            1 if verbose == "auto" else int(verbose),
        )
        return cls.load(path, model, verify=False)

    def append(self, facts: np.ndarray) -> None:
        """Adds facts after the last one.

        The others are neither written nor indexed again, except for small segments,
        which are merged. On the disk, the memory has either all new facts or none: if
        the process ends early, `load` finds the memory as it was. Only one process may
        change a memory at a time.

        Args:
            facts: integers (n, L′), 0 is padding; L′ may be any length.

        Raises:
            OSError: if the files cannot be written. The memory is then as it was.
            ValueError: for wrong facts, an index without `append`, or, if the memory is
                on the disk, an index that is not the one of its folder, or a folder
                that was changed since the memory was opened.
        """
        facts = checked(facts)
        check_ids("facts", facts, self._model.vocabulary_size)
        index, last = self._index, None
        check_append(index, self.size)
        if self._stored is not None:
            self._stored.check(index)
        if not len(facts):
            return
        count = merging([len(segment) for segment in self._segments], len(facts))
        kept = len(self._segments) - count
        merged = joined_facts([*self._segments[kept:], facts])
        merged = merged.astype(self._segments[0].dtype)
        if isinstance(index, Hash):
            *others, last = index.extended(facts)
        if self._stored is not None:
            self._stored, merged, last = self._stored.append(kept, merged, last)
        if last is not None:
            index.segments = [*others, last]
        elif index is not None:
            index.append(facts)
            check_size(index, self.size + len(facts))
        self._set_segments([*self._segments[:kept], merged])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the facts and the hash to a folder.

        The folder does not contain the model; save it with `model.save`.

        Args:
            path: the folder, such as "memory". A saved memory in it is replaced at the
                end, in one step.

        Raises:
            OSError: if the files cannot be written.
            ValueError: if the index is neither a `WordHash` nor a `ClusterHash`, or the
                path is a file, or a folder with other files.
        """
        manifest = about(self._model, self._sentences.fingerprint)
        save(path, manifest, self._segments, self.index)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], model: Any, verify: bool = True
    ) -> Self:
        """Opens a memory that `save` or `build` wrote.

        The files are mapped, not read into memory. Files of version 1, a single NumPy
        archive, are read; `save` writes them in the new format.

        Args:
            path: the folder, or a file of version 1.
            model: the `MemNN` that made the memory, with the same weights; it may run
                on another backend.
            verify: whether to read all files once and compare their checksums. Without
                it, only the sizes of files and arrays are compared.

        Returns:
            The `LargeMemory`.

        Raises:
            OSError: if there is no such file.
            ValueError: if this is not a saved memory or it is damaged, or if the model
                differs in size or weights from the one that made the memory.
        """
        sentences = SentenceKeys(model)
        manifest, segments, index, stored = read(path, verify)
        check_model(path, manifest, model, sentences.fingerprint)
        memory = cls.__new__(cls)
        memory._set(model, segments, index, stored)
        return memory

    def sentences(self, facts: np.ndarray) -> np.ndarray:
        """Returns the words of the facts `facts` (n,), integers (n, L)."""
        if len(self._segments) == 1:
            return self._segments[0][facts]
        width = max(segment.shape[1] for segment in self._segments)
        words = np.zeros((len(facts), width), self._segments[0].dtype)
        part = np.searchsorted(self._starts, facts, "right") - 1
        for n in np.unique(part):
            here, segment = part == n, self._segments[n]
            words[here, : segment.shape[1]] = segment[facts[here] - self._starts[n]]
        return words

    def keys(self, start: int, stop: int) -> np.ndarray:
        """Returns the embeddings of the facts from `start` to `stop`, float32 (n, D).

        The similarity of a fact and a query is the product of the fact's embedding and
        the embedding that an index receives as `query`. An index of vectors can be
        built from blocks of embeddings.
        """
        self._sentences.check()
        return self._sentences.embed(self.sentences(np.arange(start, stop)))

    def digest(self) -> str:
        """Returns a digest of the facts and of the weights that embed them.

        It is equal on all backends. The first call reads all facts.

        Returns:
            64 hexadecimal digits.
        """
        if self._digest is None:
            digest = hashlib.sha256(f"{self._sentences.fingerprint} ".encode())
            for start in range(0, self.size, BLOCK):
                block = np.arange(start, min(start + BLOCK, self.size))
                words = self.sentences(block)
                digest.update(f"{words.dtype} {words.shape} ".encode())
                digest.update(words.tobytes())
            self._digest = digest.hexdigest()
        return self._digest

    def answer(self, questions: np.ndarray) -> Answers:
        """Retrieves the supporting facts and answers each question with a word.

        Args:
            questions: integers (B, L), 0 is padding.

        Returns:
            `Answers`.

        Raises:
            ValueError: if the questions are not integers (B, L), an id is below 0 or
                not below `vocabulary_size`, the index returns wrong candidates, or the
                weights that embed facts changed since the memory was made.
        """
        self._sentences.check()
        questions = check_questions(questions, self._model.vocabulary_size)
        asked = self._sentences.features(questions)  # (B, ·)
        state = self._finder.question(asked)  # (B, D)
        batch, hops = len(questions), self._finder.supports
        found = np.full((batch, hops), -1)
        scored = np.zeros(batch, "int64")
        for hop in range(hops):
            query = self._finder.embed(state)
            weights = to_numpy(self._finder.weights_of_time(query))  # (B, 3)
            query = to_numpy(query)
            for b in range(batch):
                if hop == 0 or found[b, hop - 1] >= 0:
                    best, count = self._find(
                        query[b], weights[b], questions[b], found[b, :hop]
                    )
                    found[b, hop], scored[b] = best, scored[b] + count
            if hop + 1 < hops:
                state = self._finder.add(state, hop, self._found(found[:, hop]))
        slots = np.where(found >= 0, np.arange(hops), -1)  # (B, K)
        memory = np.stack([self._found(found[:, h]) for h in range(hops)], axis=1)
        memory = np.pad(memory, ((0, 0), (0, 0), (1, 0)))  # (B, K, ·), no times needed
        words = to_numpy(self._responder(asked, memory, slots)).argmax(-1)
        return Answers(words, found, scored)

    def _find(
        self, query: np.ndarray, weights: np.ndarray, words: np.ndarray, found: Any
    ) -> tuple[int, int]:
        """Returns the best fact or −1 in one hop, and the number of scored facts."""
        slots = None
        if self.index is not None:
            text = np.concatenate([words, *self.sentences(found)])
            slots = checked_candidates(self.index, self.size, text, query)
        similar = self._sentences.similarity(
            query, self.size if slots is None else len(slots)
        )
        # A fact's number stands for its time: only the order of times counts.
        x = found[-1] if len(found) else self.size
        best, count = None, 0
        for numbers, block in self._newest_first(slots):
            if not block[:, 0].all():  # empty facts are no candidates
                filled = block.any(1)
                numbers, block = numbers[filled], block[filled]
            count += len(numbers)
            new = ~np.isin(numbers, found)  # a fact is retrieved only once
            if not new.all():
                numbers, block = numbers[new], block[new]
            best = last_of_one_pass(numbers, similar(block), weights, x, best)
        if self._model.adaptive:  # m_∅ is older than all facts
            nothing = (self._sentences.nothing() @ query)[None]
            best = last_of_one_pass(np.array([-1]), nothing, weights, x, best)
        return (-1 if best is None else best[0]), count

    def _newest_first(
        self, slots: np.ndarray | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields blocks of fact numbers (n,) and words (n, L); None is all facts."""
        number = self.size if slots is None else len(slots)
        for stop in range(number, 0, -BLOCK):
            start = max(stop - BLOCK, 0)
            here = np.arange(start, stop) if slots is None else slots[start:stop]
            if slots is None and len(self._segments) == 1:
                yield here, self._segments[0][start:stop]
            else:
                yield here, self.sentences(here)

    def _found(self, slots: np.ndarray) -> np.ndarray:
        """Returns the features (B, ·) of the facts `slots` (B,); zeros for −1."""
        words = self.sentences(np.maximum(slots, 0))
        return self._sentences.features(np.where(slots[:, None] >= 0, words, 0))
