"""A memory of very many facts, queried by a trained `MemNN`.

Shapes: B questions, N facts, L words, D width, K hops; "·" denotes the features of a
sentence.
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.checked import check_ids
from keras_attention.layers.memory_networks import (
    FactFinder,
    SentenceEncoder,
    SentenceFeatures,
    WordResponder,
)
from keras_attention.models.base.vector_index import (
    CandidateIndex,
    VectorIndex,
    checked_candidates,
)
from keras_attention.models.memory_networks.fact_file import (
    CHUNK,
    FORMAT,
    HASHES,
    NAME,
    FactFile,
    groups_of,
    opened,
    write,
)
from keras_attention.models.memory_networks.hashes import Hash, WordHash, checked

# The model's sizes that determine the features of a fact and their embeddings.
SIZES = ("vocabulary_size", "ngrams", "buckets", "embedding_dim", "nonlinear")
# Arguments under which the features of a fact depend on its words alone.
ARGUMENTS = {
    *(*SIZES, "supports", "time", "adaptive", "hop_versions"),
    *("dtype", "name", "trainable"),
}


class Answers(NamedTuple):
    """The answers of a `LargeMemory`.

    Attributes:
        words: int64 (B,), the predicted words.
        facts: int64 (B, K), the retrieved facts; −1 after the last fact.
        scored: int64 (B,), the number of facts scored in all hops.
    """

    words: np.ndarray
    facts: np.ndarray
    scored: np.ndarray


def _one_thread_at_a_time(method: Callable) -> Callable:
    """Lets other threads wait: SQLite, calling Python, would block them for ever."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return call


class LargeMemory:
    """Stores very many facts, and answers questions by a trained `MemNN`.

    The answers equal those of the model on a story of these facts. Only the words of
    the facts are stored, in integers of the smallest size. Embeddings are computed when
    a question needs them. Questions are answered one by one. With an index, only its
    candidates are scored.

    `MemNN.remember` makes a memory of an array. `build` makes one on the disk from a
    stream of facts. `save` writes a memory to a folder, and `load` opens it. The folder
    has one SQLite file, of which only what a question needs is read. Several processes
    may use a memory on the disk and append to it at the same time. Threads may share a
    memory, and use it one after another.

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
        sentences, file = SentenceKeys(model), FactFile(":memory:")
        groups = groups_of(checked(facts), model.vocabulary_size)
        file.build(sentences.about(None), groups)
        self._set(sentences, file, None)
        self.index = index

    def _set(self, sentences: SentenceKeys, file: FactFile, index: Hash | None) -> None:
        self._sentences, self._file, self._hash = sentences, file, index
        self._index: CandidateIndex | None = index
        self._digest: str | None = None
        self._lock = vars(self).get("_lock") or threading.RLock()

    @property
    def size(self) -> int:
        """N, the number of facts."""
        return self._file.size

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

        About a million facts are in memory at a time. A memory that was in the folder
        is replaced at the end, in one step.

        Args:
            path: the folder of the memory.
            model: a trained `MemNN`.
            facts: an iterable of integers (n, L) in chronological order, such as a
                generator; or integers (N, L), such as an array that NumPy has mapped
                from a file. 0 is padding. L may differ between the blocks.
            max_share: see `WordHash`; None for no hash.
            budget: see `WordHash`.
            verbose: "auto" or 1: shows a progress bar; 0: shows nothing; 2: one line
                at the end.

        Returns:
            The `LargeMemory`, as `load` returns it.

        Raises:
            OSError: if the file cannot be written.
            ValueError: for facts that are not integers (n, L) ≥ 0 below
                `model.vocabulary_size`, no fact, or another wrong argument.
        """
        index = None
        if max_share is not None:
            index = WordHash(np.zeros((0, 1), int), max_share, budget)
        bar = 1 if verbose == "auto" else int(verbose)
        groups = groups_of(facts, model.vocabulary_size, bar)
        write(path, SentenceKeys(model).about(index), groups, index)
        return cls.load(path, model, verify=False)

    @_one_thread_at_a_time
    def append(self, facts: np.ndarray) -> None:
        """Adds facts after the last one.

        On the disk, the memory has either all new facts or none: if the process ends
        early, `load` opens the memory as it was. Other processes may append to the same
        memory; this one then has their facts, too.

        Args:
            facts: integers (n, L′), 0 is padding; L′ may be any length.

        Raises:
            OSError: if the file cannot be written. The memory is then as it was.
            ValueError: for wrong facts, an index without `append`, or, if the memory is
                on the disk, an index that is not the one of its folder, or a folder
                whose memory was replaced since this one was opened.
        """
        facts, index = checked(facts), self._index
        check_ids("facts", facts, self._sentences.model.vocabulary_size)
        if index is not None and not hasattr(index, "append"):
            raise ValueError(
                "`index` must have the method `append` to add facts to its memory. "
                f"Received: index={index!r}"
            )
        check_size(index, self.size)
        is_own = index is self._hash
        if self._file.path != ":memory:" and not is_own:
            raise ValueError(
                "`index` must be the one that was loaded to append to a memory on the "
                "disk; save the memory to another folder first. Received: "
                f"index={index!r}"
            )
        if not len(facts):
            return
        if index is not None and not is_own:
            index.append(facts)
            check_size(index, self.size + len(facts))
        self._file.append(facts, self._hash)
        self._digest = None

    @_one_thread_at_a_time
    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the facts and the hash, but not the model, to a folder.

        A saved memory in the folder is replaced at the end, in one step. The facts are
        indexed again.

        Raises:
            OSError: if the file cannot be written, or its place has another file.
            ValueError: if the index is neither a `WordHash` nor a `ClusterHash`, or the
                path is a file, or a folder with other files.
        """
        index: Any = self.index
        if index is not None and type(index) not in HASHES.values():
            raise ValueError(
                "`index` must be a WordHash, a ClusterHash or None to be saved; a "
                f"VectorIndex has its own `save` and `load`. Received: index={index!r}"
            )
        groups = ([self._words(start)] for start in range(0, self.size, CHUNK))
        write(path, self._sentences.about(index), groups, index)
        if self._file.path == os.path.realpath(os.path.join(path, NAME)):
            file, _, index = opened(path, verify=False)
            self._set(self._sentences, file, index)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], model: Any, verify: bool = True
    ) -> Self:
        """Opens a memory that `save` or `build` wrote.

        Args:
            path: the folder.
            model: the `MemNN` that made the memory, with the same weights; it may run
                on another backend.
            verify: whether to read the whole file once and compare its checksums.

        Raises:
            OSError: if there is no such folder.
            ValueError: if this is not a saved memory or it is damaged, or if the model
                differs in size or weights from the one that made the memory.
        """
        sentences = SentenceKeys(model)
        file, made_with, index = opened(path, verify)
        rule = f"`model` must be the one that the memory in {path} was made with"
        for name, size in made_with["sizes"].items():
            if (received := getattr(model, name, None)) != size:
                raise ValueError(
                    f"{rule}, of {name}={size!r}. Received: model.{name}={received!r}"
                )
        if sentences.fingerprint != made_with["embedding"]:
            raise ValueError(
                f"{rule}; this one has other weights, or was trained since. "
                "`model.remember` makes the memory anew. Received: "
                f"model={model!r}"
            )
        memory = cls.__new__(cls)
        memory._set(sentences, file, index)
        return memory

    @_one_thread_at_a_time
    def sentences(self, facts: np.ndarray) -> np.ndarray:
        """Returns the words of the facts `facts` (n,), integers (n, L).

        Raises:
            IndexError: for a number that is not from −N to N − 1; −1 is the last fact.
        """
        facts, size = np.asarray(facts, "int64"), self.size
        if facts.size and not -size <= facts.min() <= facts.max() < size:
            raise IndexError(
                f"`facts` must be from {-size} to {size - 1}. Received: facts from "
                f"{facts.min()} to {facts.max()}"
            )
        return self._file.rows(np.where(facts < 0, facts + size, facts))

    def keys(self, start: int, stop: int) -> np.ndarray:
        """Returns the embeddings of the facts from `start` to `stop`, float32 (n, D).

        The similarity of a fact and a query is the product of the fact's embedding and
        the embedding that an index receives as `query`.
        """
        self._sentences.check()
        return self._sentences.embed(self.sentences(np.arange(start, stop)))

    @_one_thread_at_a_time
    def digest(self) -> str:
        """Returns a digest of the facts and of the weights that embed them.

        It has 64 hexadecimal digits and is equal on all backends.
        """
        if self._digest is None:
            digest = hashlib.sha256(f"{self._sentences.fingerprint} ".encode())
            for start in range(0, self.size, CHUNK):
                digest.update(self._words(start).tobytes())
            self._digest = digest.hexdigest()
        return self._digest

    @_one_thread_at_a_time
    def answer(self, questions: np.ndarray) -> Answers:
        """Retrieves the supporting facts and answers each question with a word.

        Args:
            questions: integers (B, L), 0 is padding.

        Raises:
            ValueError: if the questions are not integers (B, L), an id is below 0 or
                not below `vocabulary_size`, the index returns wrong candidates, or the
                weights that embed facts changed since the memory was made.
        """
        self._sentences.check()
        questions = np.asarray(questions)
        if questions.ndim != 2 or questions.dtype.kind not in "iu":
            raise ValueError(
                "`questions` must be integers (questions, words). Received: "
                f"questions.shape={questions.shape}, questions.dtype={questions.dtype}"
            )
        model, finder = self._sentences.model, self._sentences.finder
        check_ids("questions", questions, model.vocabulary_size)
        asked = self._sentences.features(questions)  # (B, ·)
        state = finder.question(asked)  # (B, D)
        batch, hops = len(questions), finder.supports
        facts, features = np.full((batch, hops), -1), []
        scored = np.zeros(batch, "int64")
        for hop in range(hops):
            query = finder.embed(state)
            weights = to_numpy(finder.weights_of_time(query))  # (B, 3)
            query = to_numpy(query)
            for b in range(batch):
                if hop == 0 or facts[b, hop - 1] >= 0:
                    facts[b, hop], count = self._best(
                        query[b], weights[b], questions[b], facts[b, :hop]
                    )
                    scored[b] += count
            words = self.sentences(np.maximum(facts[:, hop], 0))
            words = np.where(facts[:, hop, None] >= 0, words, 0)
            features.append(self._sentences.features(words))  # (B, ·)
            if hop + 1 < hops:
                state = finder.add(state, hop, features[hop])
        slots = np.where(facts >= 0, np.arange(hops), -1)  # (B, K)
        memory = np.pad(np.stack(features, axis=1), ((0, 0), (0, 0), (1, 0)))  # times
        scores = model.get_layer("R")(asked, memory, slots)  # (B, V)
        return Answers(to_numpy(scores).argmax(-1), facts, scored)

    def _best(
        self, query: np.ndarray, weights: np.ndarray, words: np.ndarray, before: Any
    ) -> tuple[int, int]:
        """Returns the best fact or −1 in one hop, and the number of scored facts."""
        slots = None
        if self.index is not None:
            text = np.concatenate([words, *self.sentences(before)])
            slots = checked_candidates(self.index, self.size, text, query)
        number = self.size if slots is None else len(slots)
        similar = self._sentences.similarity(query, number)
        # A fact's number stands for its time: only the order of times counts.
        x = before[-1] if len(before) else self.size
        best, count = None, 0
        for start in reversed(range(0, number, CHUNK)):  # from the newest block
            if slots is None:
                block = self._words(start)
                numbers = np.arange(start, start + len(block))
            else:
                numbers = slots[start : start + CHUNK]
                block = self.sentences(numbers)
            if not block[:, 0].all():  # empty facts are no candidates
                filled = block.any(1)
                numbers, block = numbers[filled], block[filled]
            count += len(numbers)
            new = ~np.isin(numbers, before)  # a fact is retrieved only once
            if not new.all():
                numbers, block = numbers[new], block[new]
            best = last_of_one_pass(numbers, similar(block), weights, x, best)
        if self._sentences.model.adaptive:  # m_∅ is older than all facts
            nothing = (self._sentences.nothing() @ query)[None]
            best = last_of_one_pass(np.array([-1]), nothing, weights, x, best)
        return (-1 if best is None else best[0]), count

    def _words(self, start: int) -> np.ndarray:
        """Returns the words of the chunk of facts that starts at `start`."""
        return self._file.chunk(start // CHUNK)[: self.size - start]


class SentenceKeys:
    """Embeds sentences as a `MemNN` does, as sums over the rows of their features."""

    def __init__(self, model: Any) -> None:
        check_features(model)
        self.model, self._layer = model, model.get_layer("I")
        self.finder = finder = model.get_layer("O")
        parts = [part for part in (finder.candidate, finder.map) if part is not None]
        self._weights = [weight for part in parts for weight in part.weights]
        self._may_differ = kernels.changes(self._weights)
        table = finder.candidate(np.arange(finder.features)[:, None])
        self._rows = to_numpy(table).astype("float32", copy=False)  # (F, D)
        self.fingerprint = self._digest()

    def _digest(self) -> str:
        """Returns a digest of the weights that embed facts, equal on all backends."""
        digest = hashlib.sha256()
        for weight in self._weights:
            array = np.ascontiguousarray(to_numpy(weight.value))
            digest.update(f"{array.dtype} {array.shape} ".encode() + array.tobytes())
        return digest.hexdigest()

    def about(self, index: Hash | None) -> dict[str, Any]:
        """Returns what the file of a memory tells about the model and the hash."""
        return {
            "format": FORMAT,
            "sizes": {size: int(getattr(self.model, size)) for size in SIZES},
            "embedding": self.fingerprint,
            "hash": index and type(index).__name__,
            "options": index and index.options(),
        }

    def check(self) -> None:
        """Raises a ValueError if the weights that embed facts have changed."""
        if not self._may_differ():  # as far as the backend's tensors tell
            return
        may_differ = kernels.changes(self._weights)
        if self._digest() != self.fingerprint:
            raise ValueError(
                "`model` was trained since the memory was made: `model.remember` makes "
                f"the memory anew. Received: model={self.model!r}"
            )
        self._may_differ = may_differ

    def features(self, words: np.ndarray) -> np.ndarray:
        """Returns the features (n, ·) of sentences (n, L)."""
        if self._layer.ngrams == 1:
            return words
        return padded_call(self._layer, words.astype("int32"))

    def embed(self, words: np.ndarray) -> np.ndarray:
        """Returns the embeddings of sentences (n, L), float32 (n, D)."""
        return self._map(summed(self._rows, self.features(words)))

    def nothing(self) -> np.ndarray:
        """Returns the embedding of m_∅, float32 (D,)."""
        return self._map(self._rows[self._layer.size][None])[0]

    def similarity(
        self, query: np.ndarray, number: int
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Returns a function of words that computes s_O(x, mᵢ) for `number` facts."""
        if self.finder.map is None and len(self._rows) <= 64 * number:
            scores = self._rows @ query  # (F,): each feature adds a number of its own
            return lambda words: summed(scores, self.features(words))
        return lambda words: self.embed(words) @ query

    def _map(self, sums: np.ndarray) -> np.ndarray:
        if self.finder.map is None:
            return sums
        return padded_call(self.finder.embed, sums).astype("float32", copy=False)


def check_size(index: CandidateIndex | None, size: int) -> None:
    """Raises a ValueError if the index has another number of facts."""
    if index is not None and index.size != size:
        raise ValueError(
            "`index` must be an index of the same facts. Received: "
            f"index.size={index.size}, len(facts)={size}"
        )


def check_features(model: Any) -> None:
    """Raises a ValueError if the features of a fact depend on more than its words."""
    config = model.get_config().items()
    others = [f"{n}={value!r}" for n, value in config if value and n not in ARGUMENTS]
    layers = [model.get_layer(name) for name in "IOR"]
    if others or [*map(type, layers)] != [SentenceFeatures, FactFinder, WordResponder]:
        raise ValueError(
            "`model` must be a MemNN with features of words and n-grams only: a large "
            "memory stores nothing else. Received: model with "
            f"{', '.join(others) or layers}"
        )
    encoder = layers[1].candidate
    if type(encoder) is not SentenceEncoder or encoder.encoding != "bag":
        raise ValueError(
            "`model` must embed a fact as a sum over its features. "
            f"Received: candidate={encoder!r}"
        )


def last_of_one_pass(
    times: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray,
    x: int,
    best: tuple[int, np.float32] | None,
) -> tuple[int, np.float32] | None:
    """Computes `ops.ranking.one_pass` for one row, for one block after the other.

    The times (n,) are ascending, and below those of earlier blocks; `similar` (n,) is
    s_O(x, mᵢ); `best` is the time and the similarity of the best memory so far.
    """
    left = len(times)
    if best is None:
        if not left:
            return None
        left -= 1
        best = times[left], similar[left]
    older = weights[0] * (x < times)
    while left:  # from the newest to the oldest
        bonus = weights[1] * (x < best[0]) + weights[2]
        ahead = similar[:left] - best[1] + (older[:left] + bonus) > 0
        if not ahead.any():
            break
        left = int(left - 1 - ahead[::-1].argmax())
        best = times[left], similar[left]
    return int(best[0]), best[1]


def summed(rows: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Sums rows (F, ...) over the features (n, ·): (n, ...)."""
    total = np.zeros((len(features), *rows.shape[1:]), "float32")
    for column in features.T:
        total += rows[column]
    return total


def padded_call(function: Callable[[Any], Any], rows: np.ndarray) -> np.ndarray:
    """Calls a function of the backend, which compiles it for few numbers of rows."""
    size = 2 ** max(len(rows) - 1, 15).bit_length()
    padding = ((0, size - len(rows)), *((0, 0) for _ in rows.shape[1:]))
    return to_numpy(function(np.pad(rows, padding)))[: len(rows)]


def to_numpy(tensor: Any) -> np.ndarray:
    """Converts a tensor to NumPy; half precision becomes float32."""
    array = ops.convert_to_numpy(tensor)
    return array.astype("float32") if array.dtype.itemsize == 2 else array
