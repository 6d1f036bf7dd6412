"""What selects the candidates of a large memory: a protocol, and an index by FAISS.

Shapes: N keys, D width.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import one_of, positive

FORMAT = "keras_attention.VectorIndex 4"
BLOCK = 2**16  # keys read at a time
DIGEST = 32  # bytes of a digest
MARKS = 64  # keys of a memory that are compared
CENTROIDS = 256  # of each byte of a code
FACTORY = {
    "flat": "Flat",
    "ivf": "IVF{cells},Flat",
    "hnsw": "HNSW{neighbors}",
    # "np": no polysemous training. It takes most of the time, and only FAISS's search
    # by Hamming distance uses it.
    "pq": "PQ{code_size}x8np",
    "ivf-pq": "IVF{cells},PQ{code_size}x8np",
}
SAVED = ("kind", "count", "probes", "ef_search", "size", "width", "_keys")


@runtime_checkable
class CandidateIndex(Protocol):
    """Selects which of many entries of a memory are scored.

    `WordHash` and `ClusterHash` select facts by words, and `VectorIndex` selects
    entries by vectors. `LargeMemory` and `AssociativeMemory.retrieve` accept every
    object with these two attributes.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import CandidateIndex, MemNN
    >>> class Newest:
    ...     def __init__(self, size, count):
    ...         self.size, self.count = size, count
    ...
    ...     def candidates(self, words, query=None):
    ...         return np.arange(max(self.size - self.count, 0), self.size)
    >>> isinstance(Newest(3, 2), CandidateIndex)
    True
    >>> memory = MemNN(6, supports=1).remember(np.eye(3, dtype=int), Newest(3, 2))
    >>> memory.answer(np.array([[5, 4]])).scored.tolist()
    [2]
    """

    @property
    def size(self) -> int:
        """N, the number of entries that the index was built from."""
        ...

    def candidates(
        self, words: np.ndarray, query: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Selects the candidates for one question.

        Args:
            words: integers (n,), the words of the question and of the facts that
                earlier hops retrieved; 0 is padding. Empty if the memory has no words.
            query: float32 (D,), the vector that the keys are compared with; None if the
                memory has no vectors.

        Returns:
            int64, the numbers of the entries in ascending order, without duplicates;
            None if all entries are candidates.
        """
        ...


class VectorIndex:
    """Selects the keys with the largest inner products with a query.

        candidates(q) = the `count` keys with the largest qᵀkᵢ

    It needs FAISS, which the extra `index` installs. The kinds differ in speed, memory
    and accuracy:

    - "flat" compares the query with every key. It is exact.
    - "ivf" compares it with the keys of the `probes` cells (clusters of keys) whose
      centres have the largest inner products with it.
    - "hnsw" walks along the edges of a graph of similar keys.
    - "pq" stores a code of `code_size` bytes for each key (product quantization), and
      compares the query with every code.
    - "ivf-pq" compares the query with the codes of the `probes` cells.

    All but "flat" are approximate and may miss keys. The memory scores the candidates
    again with the exact keys. FAISS uses all cores; `faiss.omp_set_num_threads` changes
    this.

    Args:
        keys: numbers (N, D), as an array, a memory-mapped array or a tensor; or a
            `LargeMemory`, whose keys are the embeddings of its facts. They are read in
            blocks, at most twice.
        kind: "flat", "ivf", "hnsw", "pq" or "ivf-pq".
        count: the number of candidates per query. If a memory prefers one of several
            equally similar facts, such as the newest, choose a count above the largest
            number of such facts.
        cells: the number of cells of "ivf" and "ivf-pq"; None for √N.
        probes: the number of cells searched per query. It may be changed later.
        neighbors: the number of edges per key of "hnsw", at least 2.
        ef_construction: the number of nearest keys that "hnsw" keeps while it inserts a
            key.
        ef_search: the number of nearest keys that "hnsw" keeps while it searches; at
            least `count` is used. It may be changed later.
        code_size: the bytes per code of "pq" and "ivf-pq", a divisor of D; None for the
            largest divisor of D that is at most D/4.
        seed: the random seed of the clustering and of the graph.

    Attributes:
        size: N.
        width: D.
        exact: whether the candidates are exactly the most similar keys ("flat").

    Raises:
        ImportError: if FAISS is not installed.
        ValueError: if the keys are not finite numbers (N, D), a number is below 1 (also
            one that the kind does not use), `neighbors` is below 2, the kind is
            unknown, there are more cells than keys, `code_size` does not divide D, or
            fewer than 256 keys are given for codes.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import VectorIndex
    >>> keys = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [-1.0, 0.0]])
    >>> index = VectorIndex(keys, kind="flat", count=2)
    >>> index.candidates([], np.array([2.0, 0.5])).tolist()
    [0, 2]

    Reference:
        Douze et al., "The Faiss library" (2024). IVF: Sivic & Zisserman (2003). HNSW:
        Malkov & Yashunin (2018). Product quantization: Jégou et al. (2011).
    """

    def __init__(
        self,
        keys: Any,
        kind: str = "flat",
        count: int = 100,
        cells: int | None = None,
        probes: int = 8,
        neighbors: int = 32,
        ef_construction: int = 40,
        ef_search: int = 64,
        code_size: int | None = None,
        seed: int = 0,
    ) -> None:
        library = faiss()
        self.kind = one_of("kind", kind, FACTORY)
        self.count = positive("count", count)
        self.probes = positive("probes", probes)
        self.ef_search = positive("ef_search", ef_search)
        positive("ef_construction", ef_construction)
        positive("neighbors", neighbors, least=2)
        keys = Keys(keys)
        self.size, self.width = keys.shape
        cells = round(self.size**0.5) if cells is None else positive("cells", cells)
        if cells > self.size and "ivf" in kind:
            raise ValueError(
                "`cells` must be at most the number of keys. "
                f"Received: cells={cells}, len(keys)={self.size}"
            )
        if code_size is None:
            most = max(self.width // 4, 1)
            code_size = max(m for m in range(1, most + 1) if self.width % m == 0)
        elif self.width % positive("code_size", code_size) and "pq" in kind:
            raise ValueError(
                "`code_size` must divide the width of the keys. "
                f"Received: code_size={code_size}, keys.shape={keys.shape}"
            )
        if "pq" in kind and self.size < CENTROIDS:
            raise ValueError(
                f"`keys` must be at least {CENTROIDS} for kind={kind!r}, whose codes "
                f"are learned from them. Received: len(keys)={self.size}"
            )
        index = library.index_factory(
            self.width,
            FACTORY[kind].format(cells=cells, neighbors=neighbors, code_size=code_size),
            library.METRIC_INNER_PRODUCT,
        )
        sample = 0
        if "ivf" in kind:
            index.cp.seed, index.cp.min_points_per_centroid = seed, 1
            sample = index.cp.max_points_per_centroid * cells
        if "pq" in kind:
            index.pq.cp.seed, index.pq.cp.min_points_per_centroid = seed, 1
            sample = max(sample, index.pq.cp.max_points_per_centroid * CENTROIDS)
        if kind == "hnsw":
            index.hnsw.efConstruction = ef_construction
            index.hnsw.rng = library.RandomGenerator(seed)
        if sample:
            index.train(keys.sample(sample, seed))
        for block in keys.blocks():
            index.add(block)
        self._index = index
        self._keys = {
            "digest": keys.digest,
            "memory": keys.memory,
            "marks": keys.marks(),
        }

    @property
    def exact(self) -> bool:
        """Whether the candidates are exactly the most similar keys."""
        return self.kind == "flat"

    def candidates(
        self, words: Any = (), query: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Selects the candidates for one query; see `CandidateIndex`.

        Args:
            words: not used.
            query: q, finite numbers (D,).

        Returns:
            int64, at most `count` numbers of keys in ascending order; None (all keys)
            if the probed cells are empty.

        Raises:
            ValueError: if the query is missing, has another width or is not finite.
        """
        vector = np.asarray([] if query is None else query, "float32")
        if vector.shape != (self.width,) or not np.isfinite(vector).all():
            shown = "None" if query is None else f"an array of shape {vector.shape}"
            raise ValueError(
                f"`query` must be finite numbers of shape ({self.width},), the width "
                f"of the keys. Received: query={shown}"
            )
        count = positive("count", self.count)
        if self.kind == "hnsw":
            ef_search = positive("ef_search", self.ef_search)
            self._index.hnsw.efSearch = max(ef_search, count)
        elif "ivf" in self.kind:
            self._index.nprobe = positive("probes", self.probes)
        _, numbers = self._index.search(vector[None], min(count, self.size))
        numbers = np.unique(numbers[0])
        numbers = numbers[numbers >= 0]  # −1 stands for "no more keys"
        return numbers if len(numbers) else None

    def check_keys(self, keys: Any) -> None:
        """Checks that the index was built from these keys.

        A digest of all numbers of arrays and tensors is compared. If the index was
        built from a `LargeMemory`, the digest of its facts and model is compared.
        Otherwise, 64 keys of an object that computes them are compared up to rounding.

        Raises:
            ValueError: if the index was built from other keys.
        """
        keys, about = Keys(keys), self._keys
        if keys.shape != (self.size, self.width):
            same = False
        elif keys.memory and about["memory"]:
            same = keys.memory == about["memory"]
        elif keys.is_computed:
            atol = 1e-3 * np.abs(about["marks"]).max()
            same = np.allclose(keys.marks(), about["marks"], rtol=0, atol=atol)
        else:
            for _ in keys.blocks():
                pass
            same = keys.digest == about["digest"]
        if not same:
            raise ValueError(
                "`index` must be built from the keys of this memory. Received: an "
                f"index of {self.size} other keys of width {self.width}; the memory "
                f"has {keys.shape[0]} keys of width {keys.shape[1]}"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to one file, by way of `path + ".new"`.

        The file has a SHA-256 of the rest, a line of JSON and the bytes of FAISS.

        Raises:
            OSError: if the file cannot be written. An existing file then stays as it
                was.
        """
        new = os.fspath(path) + ".new"
        about = {"format": FORMAT, **{name: getattr(self, name) for name in SAVED}}
        try:
            with open(new, "wb+") as file:
                file.write(bytes(DIGEST) + json.dumps(about).encode() + b"\n")
                writer = faiss().PyCallbackIOWriter(file.write)
                faiss().write_index(self._index, writer)
                digest = digest_of(file)
                file.seek(0)
                file.write(digest)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
        except RuntimeError as error:  # FAISS drops the error of `file.write`
            raise OSError(f"{new} could not be written: {error}") from error
        finally:
            pathlib.Path(new).unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str], keys: Any) -> Self:
        """Reads an index from a file written by `save`.

        Args:
            path: the path of the file.
            keys: the keys that the index was built from, or the memory.

        Raises:
            ImportError: if FAISS is not installed.
            OSError: if the file cannot be read.
            ValueError: if the file is not a saved index or is damaged, or was built
                from other keys.
        """
        library, loaded, rule = faiss(), cls.__new__(cls), "is not a saved VectorIndex"
        with open(path, "rb") as file:
            if file.read(DIGEST) != digest_of(file):
                raise ValueError(f"{path} {rule}, or it is damaged")
            file.seek(DIGEST)
            about = json.loads(file.readline())
            if about["format"] != FORMAT:
                raise ValueError(f"{path} {rule}: its format is {about['format']!r}")
            for name in SAVED:
                setattr(loaded, name, about[name])
            loaded._index = library.read_index(library.PyCallbackIOReader(file.read))
        loaded.check_keys(keys)
        return loaded


class Keys:
    """Keys (N, D) in blocks: numbers, or what an object's `keys(start, stop)` computes.

    `memory` is the object's `digest()`, if it has one; `digest` is that of the numbers.
    """

    digest = memory = None

    def __init__(self, keys: Any) -> None:
        compute: Any = getattr(keys, "keys", None)
        self.is_computed = callable(compute) and hasattr(keys, "size")
        if self.is_computed:
            self._part = lambda start, stop: compute(start, min(stop, keys.size))
            self.shape = (int(keys.size), compute(0, 1).shape[1])
            self.memory = getattr(keys, "digest", lambda: None)()
        else:
            keys = keys if hasattr(keys, "shape") else np.asarray(keys)
            self._part = lambda start, stop: ops.convert_to_numpy(keys[start:stop])
            self.shape = tuple(keys.shape)
        is_table = len(self.shape) == 2 and 0 not in self.shape
        # "V" is the kind of bfloat16.
        if not is_table or self._part(0, 1).dtype.kind not in "fiuV":
            raise ValueError(
                "`keys` must be numbers (keys, width), neither of them 0. Received: "
                f"keys.shape={self.shape}, keys.dtype={getattr(keys, 'dtype', None)}"
            )

    def blocks(self) -> Iterator[np.ndarray]:
        """Yields the keys in blocks, float32, and sets `digest`."""
        digest = hashlib.sha256(f"{self.shape} ".encode())
        for start in range(0, self.shape[0], BLOCK):
            with np.errstate(over="ignore"):
                part = self._part(start, start + BLOCK)
                block = np.ascontiguousarray(part, "float32")
            wrong = np.flatnonzero(~np.isfinite(block).all(1))
            if len(wrong):
                raise ValueError(
                    f"`keys` must be finite in float32. Received: {len(wrong)} of a "
                    f"block that are not, such as keys[{start + wrong[0]}]"
                )
            digest.update(block.data)
            yield block
        self.digest = digest.hexdigest()

    def sample(self, count: int, seed: int) -> np.ndarray:
        """Returns a random sample of about `count` keys, in order."""
        rng, share = np.random.default_rng(seed), count / self.shape[0]
        return np.concatenate([b[rng.random(len(b)) < share] for b in self.blocks()])

    def marks(self) -> list[float]:
        """Returns the products of up to 64 keys with random signs."""
        size, width = self.shape
        signs = np.random.default_rng(width).choice([-1.0, 1.0], width)
        rows = np.unique(np.linspace(0, size - 1, MARKS).astype(int)).tolist()
        keys = np.stack([self._part(row, row + 1)[0] for row in rows])
        return (keys.astype("float64") @ signs).tolist()


def checked_candidates(
    index: Any, size: int, words: np.ndarray, query: np.ndarray | None, least: int = 0
) -> np.ndarray | None:
    """Calls `index.candidates`, and raises a ValueError if it returns wrong numbers."""
    numbers = index.candidates(words, query)
    if numbers is None:
        return None
    numbers = np.asarray(numbers)
    if (
        numbers.ndim != 1
        or numbers.dtype.kind not in "iu"
        or len(numbers) < least
        or (numbers[1:] <= numbers[:-1]).any()  # differences of unsigned integers wrap
        or (numbers[:1] < 0).any()
        or (numbers[-1:] >= size).any()
    ):
        count = f", at least {least} of them" if least else ""
        raise ValueError(
            "`index.candidates` must return None or integers in ascending order"
            f"{count}, without duplicates, from 0 to {size - 1}. Received: an array "
            f"of shape {numbers.shape} and dtype {numbers.dtype}"
        )
    return numbers


def digest_of(file: Any) -> bytes:
    """Returns the SHA-256 of what follows the first bytes of a file."""
    file.seek(DIGEST)
    return hashlib.file_digest(file, "sha256").digest()


def faiss() -> Any:
    """Imports FAISS, or raises an ImportError that names the extra."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ImportError(
            "A VectorIndex needs FAISS, which comes with the extra `index`: "
            'python -m pip install "keras-attention-family[index]". '
            f"Received: {error}",
            name="faiss",
        ) from error
