"""Theory of an associative memory: separation, error bounds and capacities.

Shapes: T states, S patterns, D width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from keras_attention.models.base.vector_index import CandidateIndex
from keras_attention.models.hopfield.candidates import CandidateStep
from keras_attention.models.hopfield.steps import BLOCK, as_numpy, parts
from keras_attention.models.hopfield.stored_patterns import StoredPatterns
from keras_attention.ops.hopfield import retrieval
from keras_attention.ops.hopfield.patterns import rows

Tensor = Any
PROVED = {"normalizer": "softmax", "similarity": "dot"}  # assumptions of the theorems


class MemoryTheory(StoredPatterns):
    """Theory of an associative memory. Abstract: subclasses store the patterns."""

    kind: str
    degree: int
    beta: float

    def metastable_size(self, states: Any, mass: float = 0.9) -> Tensor:
        """Counts the patterns that make up each state, see `ops.retrieval`.

        Args:
            states: (..., T, D).
            mass: the fraction of the weight that the patterns must reach.

        Returns:
            int32 (..., T).

        Raises:
            ValueError: for a binary memory, which has no weights over patterns.
        """
        self._only("weights of patterns", kind="modern")
        shape, flat = self._states("states", states)
        sizes = self._by_blocks("size", flat, mass)
        return ops.reshape(sizes, shape[:-1])

    def left_out_weight(self, states: Any, index: CandidateIndex) -> Tensor:
        """Bounds the softmax weight of the patterns that an index does not find.

            m = (N − C) e^(β s) / (Σ_c e^(β ξᵀx_c) + (N − C) e^(β s)),   s = min_c ξᵀx_c

        C of the N patterns are candidates. If they are the most similar patterns, as
        with `VectorIndex(kind="flat")`, the other patterns have scores of at most s. m
        is then an upper bound, up to the rounding of float32. With an approximate
        index, m is an estimate that can be too small: a missed pattern may have a score
        above s.

        Args:
            states: ξ, (..., T, D).
            index: a `VectorIndex` of the patterns or another `CandidateIndex`.

        Returns:
            m, (..., T), in [0, 1].

        Raises:
            ValueError: if the memory is empty, the states do not fit it, it does not
                use softmax and dot products, or the index was built from other
                patterns.
        """
        shape, flat = self._states("states", states)
        step = self._candidate_step(index, 1.0)
        weights = [
            step.left_out(part, self._table, self._count, self.beta)
            for part in parts(flat, BLOCK)
        ]
        bounds = np.concatenate([np.zeros(0, "float32"), *weights])
        return ops.convert_to_tensor(bounds.reshape(shape[:-1]))

    def pattern_separation(self) -> Tensor:
        """Computes Δᵢ = xᵢᵀxᵢ − max_{j ≠ i} xᵢᵀxⱼ, (S,), see `ops.retrieval`.

        Δᵢ is computed from dot products for every `similarity` of the memory.
        """
        patterns = rows("patterns", self._stored())
        return self._by_blocks("separation", patterns)

    def retrieval_error_bound(self, distance: float = 0.0) -> Tensor:
        """Bounds the distance between each pattern and a query near it after one step.

        Args:
            distance: ‖ξ − xᵢ‖, the distance of a query from its pattern.

        Returns:
            (S,), see `ops.retrieval.retrieval_error_bound`.

        Raises:
            ValueError: for a negative distance, or a memory without softmax and dot
                products, to which the theorem does not apply.
        """
        self._only("this bound", kind="modern", **PROVED)
        delta = self.pattern_separation()
        return retrieval.retrieval_error_bound(
            self._stored(), self.beta, distance, delta
        )

    def expected_capacity(self, flips: float = 0.0, failure: float = 0.001) -> float:
        """Returns the theoretical number of random patterns that the memory can store.

        The random patterns have the width of the stored patterns. For "modern", this is
        a loose lower bound for patterns with the mean norm of the stored patterns, see
        `ops.retrieval.modern_capacity`.

        Args:
            flips: for "exponential", the fraction of wrong bits in a query.
            failure: for "modern", the probability that a pattern is not stored.

        Raises:
            ValueError: for a modern memory without softmax and dot products, to which
                the theorem does not apply.
        """
        if self.kind == "modern":
            self._only("this capacity", **PROVED)
        dim = self._stored().shape[-1]
        if self.kind == "classical":
            return retrieval.classical_capacity(dim)
        if self.kind == "polynomial":
            return retrieval.polynomial_capacity(dim, self.degree)
        if self.kind == "exponential":
            return retrieval.exponential_capacity(dim, flips)
        length = float(np.linalg.norm(as_numpy(self.patterns), axis=-1).mean())
        radius = length / max(dim - 1, 1) ** 0.5
        return retrieval.modern_capacity(dim, self.beta, radius, failure)

    def _candidate_step(
        self, index: CandidateIndex, max_left_out: float
    ) -> CandidateStep:
        self._only("an index", kind="modern", **PROVED)
        self._stored()
        return CandidateStep(index, self._table, self._count, max_left_out)

    def _only(self, what: str, **wanted: str) -> None:
        for name, value in wanted.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"`{name}` must be {value!r} for {what}. "
                    f"Received: {name}={getattr(self, name)!r}"
                )
