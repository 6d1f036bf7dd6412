"""An index that selects the keys with the largest inner products, by FAISS.

Shapes: N keys, D width.
"""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from keras_attention.layers.base.arguments import positive
from keras_attention.models.base import vector_files
from keras_attention.models.base.vector_keys import (
    MemoryKeys,
    blocks,
    digest_of,
    first_pass,
    marks_of,
    read_keys,
)

PQ_BITS = 8  # of each byte of a code: 256 centroids per part of a vector
KINDS = ("flat", "ivf", "hnsw", "pq", "ivf-pq")


class VectorIndex:
    """Selects the keys with the largest inner products with a query.

        candidates(q) = the `count` keys with the largest qᵀkᵢ

    It needs FAISS, which the extra `index` installs. The kinds differ in speed, memory
    and accuracy:

    - "flat" compares the query with every key. It is exact.
    - "ivf" clusters the keys into cells. It compares the query with the keys of the
      `probes` cells whose centres have the largest inner products with it.
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
            blocks, twice.
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
        faiss = vector_files.faiss()
        if kind not in KINDS:
            raise ValueError(
                f"`kind` must be one of {list(KINDS)}. Received: kind={kind!r}"
            )
        self.kind = kind
        self.count = positive("count", count)
        self.probes = positive("probes", probes)
        self.ef_search = positive("ef_search", ef_search)
        positive("ef_construction", ef_construction)
        if positive("neighbors", neighbors) < 2:
            raise ValueError(
                f"`neighbors` must be at least 2. Received: neighbors={neighbors}"
            )
        for name, number in (("cells", cells), ("code_size", code_size)):
            if number is not None:
                positive(name, number)
        keys = read_keys(keys)
        self.size, self.width = keys.shape
        cells = _cells(kind, self.size, cells)
        code_size = _code_size(kind, self.size, self.width, code_size)
        # "np": no polysemous training. It takes most of the time, and only FAISS's
        # search by Hamming distance uses it.
        name = {
            "flat": "Flat",
            "ivf": f"IVF{cells},Flat",
            "hnsw": f"HNSW{neighbors}",
            "pq": f"PQ{code_size}x{PQ_BITS}np",
            "ivf-pq": f"IVF{cells},PQ{code_size}x{PQ_BITS}np",
        }[kind]
        index = faiss.index_factory(self.width, name, faiss.METRIC_INNER_PRODUCT)
        sample = 0
        if "ivf" in kind:
            index.cp.seed, index.cp.min_points_per_centroid = seed, 1
            sample = index.cp.max_points_per_centroid * cells
        if "pq" in kind:
            index.pq.cp.seed, index.pq.cp.min_points_per_centroid = seed, 1
            own = index.pq.cp.max_points_per_centroid << PQ_BITS
            sample = max(sample, own)
        if kind == "hnsw":
            index.hnsw.efConstruction = ef_construction
            index.hnsw.rng = faiss.RandomGenerator(seed)
        self._digest, points = first_pass(keys, sample, seed)
        self._marks = marks_of(keys)
        self._memory = keys.digest if isinstance(keys, MemoryKeys) else None
        if sample:
            index.train(points)
        for _, block in blocks(keys):
            index.add(block)
        self._index = index

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
        given = np.asarray([] if query is None else query, "float32")
        if given.shape != (self.width,) or not np.isfinite(given).all():
            raise ValueError(
                f"`query` must be finite numbers of shape ({self.width},), the width "
                f"of the keys. Received: query={_shown(query)}"
            )
        count = min(positive("count", self.count), self.size)
        _, found = self._index.search(given[None], count, params=self._parameters())
        found = np.unique(found[0])
        found = found[np.searchsorted(found, 0) :]  # −1 stands for "no more keys"
        return found if len(found) else None

    def check_keys(self, keys: Any) -> None:
        """Checks that the index was built from these keys.

        All numbers of arrays and tensors are compared, by a digest. A `LargeMemory`,
        which computes its keys, has a digest of its facts and its model, which is
        compared if the index was built from a `LargeMemory`. Otherwise, 64 keys of an
        object that computes them are compared up to rounding.

        Args:
            keys: as in the constructor.

        Raises:
            ValueError: if the index was built from other keys.
        """
        keys = read_keys(keys)
        same = keys.shape == (self.size, self.width)
        if same and isinstance(keys, MemoryKeys) and keys.digest and self._memory:
            same = keys.digest == self._memory
        elif same and isinstance(keys, MemoryKeys):
            scale = 1e-3 * np.abs(self._marks).max()
            same = np.allclose(marks_of(keys), self._marks, rtol=0, atol=scale)
        elif same:
            same = digest_of(keys) == self._digest
        if not same:
            raise ValueError(
                "`index` must be built from the keys of this memory. Received: an "
                f"index of {self.size} other keys of width {self.width}; the memory "
                f"has {keys.shape[0]} keys of width {keys.shape[1]}"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to one file.

        Args:
            path: the path of the file. The data are first written to `path + ".new"`,
                which then replaces an existing file.

        Raises:
            OSError: if the file cannot be written. An existing file then stays as it
                was.
        """
        about = {
            **{"kind": self.kind, "count": self.count, "probes": self.probes},
            **{"ef_search": self.ef_search, "size": self.size, "width": self.width},
            **{"keys": self._digest, "marks": self._marks, "memory": self._memory},
        }
        vector_files.write(path, about, self._index)

    @classmethod
    def load(cls, path: str | os.PathLike[str], keys: Any) -> Self:
        """Reads an index from a file written by `save`.

        Args:
            path: the path of the file.
            keys: the keys that the index was built from, or the memory.

        Returns:
            The `VectorIndex`.

        Raises:
            ImportError: if FAISS is not installed.
            OSError: if the file cannot be read.
            ValueError: if the file is not a saved index or is damaged, or was built
                from other keys.
        """
        about, index = vector_files.read(path)
        made = cls.__new__(cls)
        made.kind, made.count, made.probes = (
            about[name] for name in ("kind", "count", "probes")
        )
        made.ef_search, made._marks = about["ef_search"], about["marks"]
        made._digest, made._memory = about["keys"], about["memory"]
        made.size, made.width, made._index = about["size"], about["width"], index
        made.check_keys(keys)
        return made

    def _parameters(self) -> Any:
        """Returns FAISS's parameters for one search."""
        faiss = vector_files.faiss()
        if "ivf" in self.kind:
            probes = positive("probes", self.probes)
            make = faiss.SearchParametersIVF
            if self.kind == "ivf-pq":
                make = faiss.IVFPQSearchParameters
            return make(nprobe=min(probes, self._index.nlist))
        if self.kind == "hnsw":
            width = max(positive("ef_search", self.ef_search), self.count)
            return faiss.SearchParametersHNSW(efSearch=width)
        return None


def _cells(kind: str, size: int, cells: int | None) -> int:
    if cells is None:
        return max(round(size**0.5), 1)
    if cells > size and "ivf" in kind:
        raise ValueError(
            "`cells` must be at most the number of keys. "
            f"Received: cells={cells}, len(keys)={size}"
        )
    return cells


def _code_size(kind: str, size: int, width: int, code_size: int | None) -> int:
    if "pq" not in kind:
        return 1
    if size < 1 << PQ_BITS:
        raise ValueError(
            f"`keys` must be at least {1 << PQ_BITS} for kind={kind!r}, whose codes "
            f"are learned from them. Received: len(keys)={size}"
        )
    if code_size is None:
        most = max(width // 4, 1)
        return next(m for m in range(most, 0, -1) if width % m == 0)
    if width % code_size:
        raise ValueError(
            "`code_size` must divide the width of the keys. "
            f"Received: code_size={code_size}, keys.shape={(size, width)}"
        )
    return code_size


def _shown(query: Any) -> str:
    if query is None:
        return "None"
    given = np.asarray(query)
    return f"an array of shape {given.shape} and dtype {given.dtype}"
