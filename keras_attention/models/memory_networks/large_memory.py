"""A memory of very many facts, queried by a trained `MemNN`.

Shapes: B questions, N facts, L words, D width, K hops; "·" denotes the features of a
sentence.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zipfile
from typing import Any, Self

import numpy as np
from keras import ops

from keras_attention.layers.base.checked import check_ids
from keras_attention.models.memory_networks.answers import Answers
from keras_attention.models.memory_networks.cluster_hash import ClusterHash
from keras_attention.models.memory_networks.hashing import Hash, checked
from keras_attention.models.memory_networks.word_hash import WordHash

BLOCK = 2**16  # facts embedded at a time

# The file format of `LargeMemory.save`.
FORMAT = "keras_attention.LargeMemory 1"
ARRAYS = ("facts", "features", "keys")
TABLES = ("buckets", "members", "starts")  # the arrays of a hash
HASHES: dict[str, type[Hash]] = {"WordHash": WordHash, "ClusterHash": ClusterHash}
# The model's sizes that determine the features of a fact and their embeddings.
SIZES = ("vocabulary_size", "ngrams", "buckets", "embedding_dim", "nonlinear")


class LargeMemory:
    """Stores facts with their embeddings, and answers questions by a trained `MemNN`.

    The answers equal those of the model on a story of these facts, but the facts are
    embedded only once. Questions are answered one by one. With a hash, only its
    candidates are scored. `MemNN.remember` creates a memory, `save` writes it to a
    file, and `load` reads it without repeating the embedding or hashing.

    Args:
        model: a trained `MemNN`.
        facts: integers (N, L) in chronological order; 0 is padding.
        index: a `WordHash` or `ClusterHash` of these facts; None to score all facts.

    Raises:
        ValueError: if the facts are not integers (N, L), or the index was built from
            other facts.

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

    def __init__(self, model: Any, facts: np.ndarray, index: Hash | None) -> None:
        facts = checked(facts)
        if not len(facts):
            raise ValueError("`facts` must hold at least one. Received: none")
        check_ids("facts", facts, model.vocabulary_size)
        if index is not None and index.size != len(facts):
            raise ValueError(
                "`index` must be a hash of the same facts. Received: "
                f"index.size={index.size}, len(facts)={len(facts)}"
            )
        self._set_model(model, facts, index)
        blocks = [facts[i : i + BLOCK] for i in range(0, len(facts), BLOCK)]
        width = self._features_layer.ngrams * facts.shape[1]
        self._features = np.zeros((len(facts), width), "int32")
        self._keys = np.zeros((len(facts), self._finder.embedding_dim), "float32")
        for n, block in enumerate(blocks):
            here = slice(n * BLOCK, n * BLOCK + len(block))
            self._features[here] = numpy(self._features_layer(block))
            self._keys[here] = self._embedded(self._features[here])
        self._embedding = fingerprint(model)

    def _set_model(self, model: Any, facts: np.ndarray, index: Hash | None) -> None:
        """Sets the attributes that are cheap to compute."""
        model.check_storable()
        self.index = index
        self.facts = facts
        self._model = model
        self._features_layer, self._finder, self._responder = (
            model.get_layer(name) for name in "IOR"
        )
        filled = (facts != 0).any(1)
        self._all = np.flatnonzero(filled)
        self._times = np.where(filled, np.cumsum(filled), -1)  # (N,)
        if model.adaptive:
            self._null_key = self._embedded(np.array([[self._features_layer.size]]))[
                0
            ]  # (D,)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the facts, embeddings and hash to one NumPy archive.

        The file does not contain the model; save it with `model.save`.

        Args:
            path: the path of the file, such as "memory.npz". The data are first written
                to `path + ".new"`, which then replaces an existing file.

        Raises:
            ValueError: if the hash is neither a `WordHash` nor a `ClusterHash`.
        """
        name = None if self.index is None else type(self.index).__name__
        if self.index is not None and HASHES.get(str(name)) is not type(self.index):
            raise ValueError(
                "`index` must be a WordHash, a ClusterHash or None to be saved. "
                f"Received: index={self.index!r}"
            )
        metadata = {
            "format": FORMAT,
            "sizes": {size: int(getattr(self._model, size)) for size in SIZES},
            "embedding": self._embedding,
            "hash": name,
        }
        arrays: dict[str, Any] = {
            "about": np.array(json.dumps(metadata)),
            "facts": self.facts,
            "features": self._features,
            "keys": self._keys,
        }
        if self.index is not None:
            for table, array in self.index.tables().items():
                arrays[f"hash_{table}"] = array
        new = os.fspath(path) + ".new"
        try:
            with open(new, "wb") as file:
                np.savez(file, **arrays)
            os.replace(new, path)
        finally:
            with contextlib.suppress(FileNotFoundError):  # already renamed
                os.remove(new)

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Any) -> Self:
        """Loads a memory from a file written by `save`.

        Args:
            path: the path of the file.
            model: the `MemNN` that created the memory, with the same weights; it may
                run on another backend.

        Returns:
            The `LargeMemory`.

        Raises:
            OSError: if the file does not exist.
            ValueError: if the file is not a saved memory or is damaged, or if the model
                differs in size or weights from the one that created the memory.
        """
        metadata, arrays, index = _read(path)
        for name, size in metadata["sizes"].items():
            if getattr(model, name, None) != size:
                raise ValueError(
                    f"`model` must be the one that the memory in {path} was made "
                    f"with, of {name}={size!r}. Received: "
                    f"model.{name}={getattr(model, name, None)!r}"
                )
        if fingerprint(model) != metadata["embedding"]:
            raise ValueError(
                f"`model` must be the one that the memory in {path} was made with; "
                "this one has other weights, or was trained since. `model.remember` "
                f"makes the memory anew. Received: model={model!r}"
            )
        memory = cls.__new__(cls)
        memory._set_model(model, arrays["facts"], index)
        memory._features, memory._keys = arrays["features"], arrays["keys"]
        memory._embedding = metadata["embedding"]
        return memory

    def answer(self, questions: np.ndarray) -> Answers:
        """Retrieves the supporting facts and answers each question with a word.

        Args:
            questions: integers (B, L), 0 is padding.

        Returns:
            `Answers`.

        Raises:
            ValueError: if an id is below 0, or not below `vocabulary_size`.
        """
        questions = np.asarray(questions)
        check_ids("questions", questions, self._model.vocabulary_size)
        asked = self._features_layer(questions)  # (B, ·)
        state = self._finder.question(asked)  # (B, D)
        batch, hops = len(questions), self._finder.supports
        found = np.full((batch, hops), -1)
        scored = np.zeros(batch, "int64")
        for hop in range(hops):
            query = self._finder.embed(state)
            weights = numpy(self._finder.weights_of_time(query))  # (B, 3)
            query = numpy(query)
            for b in range(batch):
                if hop == 0 or found[b, hop - 1] >= 0:
                    best, count = self._find(
                        query[b], weights[b], questions[b], found[b, :hop]
                    )
                    found[b, hop], scored[b] = best, scored[b] + count
            if hop + 1 < hops:
                state = self._finder.add(state, hop, self._sentences(found[:, hop]))
        slots = np.where(found >= 0, np.arange(hops), -1)  # (B, K)
        memory = np.stack([self._sentences(found[:, h]) for h in range(hops)], axis=1)
        memory = np.pad(memory, ((0, 0), (0, 0), (1, 0)))  # (B, K, ·), no times needed
        words = numpy(self._responder(asked, memory, slots)).argmax(-1)
        return Answers(words, found, scored)

    def _find(
        self, query: np.ndarray, weights: np.ndarray, words: np.ndarray, found: Any
    ) -> tuple[int, int]:
        """Returns the best fact or −1 in one hop, and the number of scored facts."""
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
        if len(found):  # a fact is retrieved only once
            new = ~np.isin(slots, found)
            slots, similar = slots[new], similar[new]
        times = self._times[slots]
        if self._model.adaptive:  # m_∅ is older than all facts
            slots = np.concatenate([[-1], slots])
            similar = np.concatenate([[self._null_key @ query], similar])
            times = np.concatenate([[0], times])
        if not len(slots):
            return -1, count
        x = self._times[found[-1]] if len(found) else self._times.max() + 1
        return int(slots[last_of_one_pass(similar, weights, x, times)]), count

    def _embedded(self, features: np.ndarray) -> np.ndarray:
        return numpy(self._finder.embed(self._finder.candidate(features)))

    def _sentences(self, slots: np.ndarray) -> np.ndarray:
        """Returns the features (B, ·) of the facts `slots` (B,); zeros for −1."""
        return np.where(slots[:, None] >= 0, self._features[slots], 0)


def last_of_one_pass(
    similar: np.ndarray, weights: np.ndarray, x: int, times: np.ndarray
) -> int:
    """Computes `ops.ranking.one_pass` for one row; each step finds a better memory.

    Args:
        similar: s_O(x, mᵢ), numbers (N,).
        weights: the weights of the three time features, (3,).
        x: the time at which the query was written.
        times: the times at which the memories were written, ascending integers (N,).

    Returns:
        The index of the best memory.
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
    """Converts a tensor to NumPy; half precision becomes float32."""
    array = ops.convert_to_numpy(tensor)
    return array.astype("float32") if array.dtype.itemsize == 2 else array


def fingerprint(model: Any) -> str:
    """Returns a digest of a `MemNN`'s fact embeddings, 64 hexadecimal digits.

    The digest is equal on all backends and changes with the weights.
    """
    finder, digest = model.get_layer("O"), hashlib.sha256()
    for part in (finder.candidate, finder.map):
        for weight in () if part is None else part.weights:
            array = np.ascontiguousarray(numpy(weight.value))
            digest.update(f"{array.dtype} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()


def _read(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, np.ndarray], Hash | None]:
    """Reads a file and returns its metadata, arrays and hash."""
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{path} is not a saved memory: it is no NumPy archive.")
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as archive:
                metadata = json.loads(str(archive["about"]))
                if metadata["format"] != FORMAT:
                    raise ValueError(f"its format is {metadata['format']!r}")
                arrays = {name: archive[name] for name in ARRAYS}
                _check(metadata, **arrays)
                index = None
                if metadata["hash"] is not None:
                    tables = {name: archive[f"hash_{name}"] for name in TABLES}
                    hash_class = HASHES[metadata["hash"]]
                    index = hash_class.from_tables(len(arrays["facts"]), tables)
        except (KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is not a saved memory: {error}") from error
    return metadata, arrays, index


def _check(
    metadata: dict[str, Any], facts: np.ndarray, features: np.ndarray, keys: np.ndarray
) -> None:
    """Checks the arrays of a file against each other and against the stored sizes."""
    number, length = checked(facts).shape
    if not number:
        raise ValueError("it holds no fact")
    if (features.dtype.name, keys.dtype.name) != ("int32", "float32"):
        raise ValueError(
            "its features must be int32 and its keys float32: "
            f"features.dtype={features.dtype}, keys.dtype={keys.dtype}"
        )
    sizes, _ = metadata["sizes"], metadata["embedding"]
    wanted = (number, length * sizes["ngrams"]), (number, sizes["embedding_dim"])
    if (features.shape, keys.shape) != wanted:
        raise ValueError(
            "its arrays do not fit each other: "
            f"facts.shape={facts.shape}, features.shape={features.shape}, "
            f"keys.shape={keys.shape}"
        )
