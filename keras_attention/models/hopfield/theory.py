"""What the theory says of a memory of patterns: separation, bounds, capacities.

Shapes: T states, S patterns, D width.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.models.hopfield.steps import as_numpy
from keras_attention.ops.hopfield import retrieval
from keras_attention.ops.hopfield.patterns import rows

Tensor = Any
PROVED = {"normalizer": "softmax", "similarity": "dot"}  # of what the theorems are


class MemoryTheory(keras.Model):
    """The theory of an associative memory, which a subclass stores. Abstract."""

    kind: str
    degree: int
    beta: float
    patterns: Any

    def metastable_size(self, states: Any, mass: float = 0.9) -> Tensor:
        """How many patterns each state is made of, see `ops.retrieval`.

        Args:
            states: (..., T, D).
            mass: the part of the weight that they must hold.

        Returns:
            int32 (..., T).

        Raises:
            ValueError: for a memory of neurons, which gives patterns no weights.
        """
        self._only("weights of patterns", kind="modern")
        shape, flat = self._states("states", states)
        found = self._by_blocks("size", flat, mass)
        return ops.reshape(found, shape[:-1])

    def pattern_separation(self) -> Tensor:
        """Δᵢ = xᵢᵀxᵢ − max_{j ≠ i} xᵢᵀxⱼ of each pattern, (S,); see `ops.retrieval`.

        The products are those of the patterns as they are, whatever the similarity.
        """
        patterns = rows("patterns", self._stored())
        return self._by_blocks("separation", patterns)

    def retrieval_error_bound(self, distance: float = 0.0) -> Tensor:
        """How far from each pattern one step ends that begins so near, at most.

        Args:
            distance: ‖ξ − xᵢ‖ of a query from its pattern.

        Returns:
            (S,), see `ops.retrieval.retrieval_error_bound`.

        Raises:
            ValueError: for a memory without softmax and dot products, of which the
                theorem is not, and a distance that is not at least 0.
        """
        self._only("this bound", kind="modern", **PROVED)
        delta = self.pattern_separation()
        return retrieval.retrieval_error_bound(
            self._stored(), self.beta, distance, delta
        )

    def expected_capacity(self, flips: float = 0.0, failure: float = 0.001) -> float:
        """How many random patterns of the stored width theory expects to be held.

        Of "modern" it is a loose lower bound for patterns of the mean length of those
        stored, see `ops.retrieval.modern_capacity`.

        Args:
            flips: of "exponential", the part of a query's bits that are wrong.
            failure: of "modern", the probability that a pattern is not held.

        Raises:
            ValueError: for a modern memory without softmax and dot products, of which
                the theorem is not.
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

    def _only(self, what: str, **wanted: str) -> None:
        for name, value in wanted.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"`{name}` must be {value!r} for {what}. "
                    f"Received: {name}={getattr(self, name)!r}"
                )
