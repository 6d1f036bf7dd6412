"""An associative memory that stores patterns and retrieves them by similarity."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import check_model_keywords, positive
from keras_attention.layers.base.serialization import arguments_of, export
from keras_attention.models.base.vector_index import CandidateIndex
from keras_attention.models.hopfield import arguments as check
from keras_attention.models.hopfield.steps import (
    Equations,
    Settings,
    as_numpy,
    block_size,
    concatenate_trajectories,
    equations,
    iterate_states,
    parts,
    shaped,
    trajectory,
)
from keras_attention.models.hopfield.theory import MemoryTheory
from keras_attention.ops.hopfield import binary_energy, energy
from keras_attention.ops.hopfield.patterns import rows

Tensor = Any

KINDS = ("modern", "classical", "polynomial", "exponential")
TOLERANCE, MAX_STEPS = 1e-4, 100


@export
class AssociativeMemory(MemoryTheory):
    """Stores patterns and retrieves them from incomplete or noisy queries.

        ξ ← Σᵢ pᵢ xᵢ,    p = separate(β · similar(ξ, x))          "modern"
        σⱼ ← sign(…) of neurons −1 and 1                          other kinds

    The step is repeated for each query independently until the query no longer changes.
    The memory has no trainable weights: `store` adds patterns and `forget` removes
    them. A saved memory includes its patterns. `keras.models.load_model` loads it once
    `keras_attention` is imported. "softmax", "softmax1" and "hardmax" read the patterns
    in chunks and never store the scores of all patterns. The other normalizers score
    all patterns at once, for a block of queries at a time, with about 2²⁰ scores per
    block. On JAX, `distribute` splits the patterns over devices.

    Args:
        kind: "modern" for real-valued patterns (`ops.energy.hopfield_update`);
            "classical", "polynomial" or "exponential" for patterns of −1 and 1
            (`ops.binary_energy`). Of the other arguments, these kinds use only `degree`
            and `order`.
        beta: β, the inverse temperature, positive. A larger β mixes fewer patterns.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15" or "hardmax".
        similarity: "dot", xᵢᵀξ, favours long patterns. "distance", −½‖ξ − xᵢ‖², favours
            neither long nor short patterns. "cosine" compares directions only and
            returns normalized patterns xᵢ/‖xᵢ‖.
        degree: n, for the polynomial memory.
        order: "asynchronous" updates one neuron after another; "synchronous" updates
            all neurons at once.
        chunk_size: the number of patterns per chunk, for the normalizers that read the
            patterns in chunks.

    Call arguments:
        queries: ξ, (..., T, D). The call is equal to `retrieve(queries)`. A larger
            model that contains a memory keeps the patterns that were stored when it was
            compiled. `keras.models.clone_model` copies such a model with an empty
            memory.

    Returns:
        (..., T, D), the final states of the queries. No gradient flows through the
        memory, so it does not train the layers before it.

    Raises:
        ValueError: for an invalid argument; for patterns or queries that differ in
            width from the stored patterns, are not finite or, in a binary memory, not
            −1 and 1; for a query to an empty memory. An error leaves the stored
            patterns unchanged. Queries in a compiled function are not checked.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import AssociativeMemory
    >>> memory = AssociativeMemory(beta=4.0)
    >>> memory.store([[1, 1, 1, 1], [1, -1, 1, -1]])
    >>> found = memory.retrieve([[1, 1, 0, 0]])
    >>> np.round(np.asarray(found), 2).tolist()
    [[1.0, 1.0, 1.0, 1.0]]

    This gives the index of each retrieved pattern if all patterns have the same norm:

    >>> np.argmax(np.asarray(found) @ np.asarray(memory.patterns).T, -1).tolist()
    [0]

    Reference:
        Ramsauer et al., "Hopfield networks is all you need" (2021); Hopfield (1982);
        Krotov & Hopfield (2016); Demircigil et al. (2017).
    """

    def __init__(
        self,
        kind: str = "modern",
        beta: float = 1.0,
        normalizer: str = "softmax",
        similarity: str = "dot",
        degree: int = 3,
        order: str = "asynchronous",
        chunk_size: int = 2048,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            dtype=dtype, **check_model_keywords("AssociativeMemory", kwargs)
        )
        if positive("degree", degree) < 2:
            raise ValueError(f"`degree` must be at least 2. Received: degree={degree}")
        self.kind = check.one_of("kind", kind, KINDS)
        self.beta = check.above_zero("beta", beta)
        self.normalizer = check.one_of("normalizer", normalizer, energy.NORMALIZERS)
        self.similarity = check.one_of("similarity", similarity, energy.SIMILARITIES)
        self.degree = degree
        self.order = check.one_of("order", order, binary_energy.ORDERS)
        self.chunk_size = positive("chunk_size", chunk_size)
        self.supports_masking = True
        self.run_eagerly = True  # `retrieve` compiles its own functions
        self.built = True
        self._count = 0
        self._table = None
        self._split = ()

    def store(self, patterns: Any) -> None:
        """Adds patterns.

        Args:
            patterns: (S, D), one pattern per row, with the width of the stored
                patterns. Pass a single pattern x as `x[None]`.

        Raises:
            ValueError: if the shape is not (S, D) with that width, or a value is not
                finite or, in a binary memory, neither −1 nor 1.
        """
        new = self._checked(patterns)
        if self._count:
            new = np.concatenate([self._on_host(), new])
        self._fill(new)

    def forget(self, indices: int | Iterable[int] | None = None) -> None:
        """Removes patterns. The remaining patterns keep their order.

        Args:
            indices: an index or several indices in any order, counted from 0 in the
                order of storing; None removes all patterns. Boolean masks and patterns
                are not accepted.

        Raises:
            ValueError: if an index is out of range.
        """
        stays = np.zeros(self._count, bool)
        if indices is not None:
            stays[:] = True
            stays[check.places(indices, self._count)] = False
        if stays.any():
            self._fill(self._on_host()[stays])
        else:
            self._set_table(None, 0)

    def quantize(self, mode: Any = None, config: Any = None, **kwargs: Any) -> None:
        """Does nothing, because patterns are not weights. They keep their precision.

        Args:
            mode: the quantization mode, ignored.
            config: the quantization config, ignored.
            **kwargs: ignored.
        """

    def retrieve(
        self,
        queries: Any,
        steps: int | None = None,
        tolerance: float = TOLERANCE,
        max_steps: int = MAX_STEPS,
        return_trajectory: bool = False,
        index: CandidateIndex | None = None,
        max_left_out: float = 0.01,
    ) -> Any:
        """Retrieves a pattern for each query, independently of the other queries.

        With an index, each step computes the softmax over its candidates only. The
        weight m that the softmax over all patterns would give to the other patterns
        changes the new state by at most 2m maxᵢ‖xᵢ‖. `left_out_weight` computes an
        upper bound of m. With a small β, many patterns have a weight and an index does
        not pay.

        Args:
            queries: ξ, (..., T, D), with values −1 and 1 for binary memories. Pass a
                single query x as `x[None]`.
            steps: the number of steps. For binary memories, a step is a sweep over all
                neurons. None repeats the step until each query moves by at most the
                tolerance.
            tolerance: the largest ‖Δξ‖ that counts as converged.
            max_steps: the maximum number of steps for queries that do not converge.
            return_trajectory: whether to return the intermediate states, too. Their
                energies are computed from all patterns.
            index: a `VectorIndex` of `memory.patterns` or another `CandidateIndex`,
                which is asked again at each step; None scores all patterns. It needs
                kind="modern", "softmax" and "dot".
            max_left_out: the largest weight in [0, 1] that the index may leave out at a
                step, compared with `left_out_weight`.

        Returns:
            (..., T, D); with `return_trajectory=True` also a `Trajectory`.

        Raises:
            ValueError: if the memory is empty, the queries have another width or are
                not finite, a number of steps is not an integer of at least 1, the
                tolerance is negative or not a number, or the index does not fit the
                memory or may leave out more than `max_left_out`.
        """
        tolerance = check.at_least_zero("tolerance", tolerance)
        limit = positive("max_steps", max_steps)
        limit = limit if steps is None else positive("steps", steps)
        shape, states = self._states("queries", queries)
        count, program = states.shape[0], self._equations
        size = block_size(
            program.rows(self._table.shape[0], program.settings.streams), count
        )
        stored = self._table, self._count, self.beta
        within = tolerance if steps is None else None
        step = program.compiled_step
        if index is not None:
            step = self._candidate_step(index, max_left_out)
        blocks = [
            iterate_states(step, stored, part, size, limit, within)
            for part in parts(states, size)
        ]
        length = None if return_trajectory else 1
        trajectories = [deque(block, length) for block in blocks]
        final = [one[-1] for one in trajectories] or [states]
        final = final[0] if len(final) == 1 else ops.concatenate(final)
        final = shaped(ops.cast(final, self.compute_dtype), shape)
        if not return_trajectory:
            return final
        all_states = (
            concatenate_trajectories(trajectories)
            if trajectories
            else as_numpy(states)[None]
        )
        energies = np.stack([as_numpy(self.energy(x)) for x in all_states])
        return final, trajectory(all_states, energies, tolerance, shape)

    def call(self, queries: Tensor) -> Tensor:
        if not kernels.is_traced(queries):
            return self.retrieve(queries)
        shape, states = self._states("queries", queries)
        step = self._equations.step

        def one(states: Tensor, moving: Tensor) -> tuple[Tensor, Tensor]:
            new, moved = step(states, moving, self._table, self._count, self.beta)
            return new, ops.logical_and(moving, moved > TOLERANCE)

        moving = ops.ones_like(states[:, 0]) > 0  # (T,)
        states, _ = ops.while_loop(
            lambda states, moving: kernels.any_left(moving),
            one,
            (states, moving),
            maximum_iterations=MAX_STEPS,
        )
        return ops.reshape(ops.cast(states, self.compute_dtype), shape)

    def compute_output_spec(self, queries: Any) -> keras.KerasTensor:
        return keras.KerasTensor(queries.shape, self.compute_dtype)

    def energy(self, states: Any) -> Tensor:
        """Computes the energy of each state; see `ops.energy`.

        No step increases the energy, except that a synchronous update of a binary
        memory may increase it.

        Args:
            states: (..., T, D).

        Returns:
            (..., T), in float32 or float64.
        """
        shape, flat = self._states("states", states)
        return ops.reshape(self._by_blocks("energy", flat), shape[:-1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self)}

    def _states(self, name: str, x: Any) -> tuple[tuple[Any, ...], Tensor]:
        """Returns the shape of x, and its rows (T, D) in the dtype of the table.

        The rows are in float32 if the table is in half precision.
        """
        flat = rows(name, x)
        if not self._count:
            self._stored()
        width = self._table.shape[-1]
        if flat.shape[-1] != width:
            raise ValueError(
                f"`{name}` must be as wide as the patterns, {width}. "
                f"Received: {name}.shape={tuple(flat.shape)}"
            )
        table = keras.backend.standardize_dtype(self._table.dtype)
        dtype = "float64" if table == "float64" else "float32"
        with np.errstate(over="ignore"):  # reported below
            flat = ops.stop_gradient(ops.cast(flat, dtype))
            known = flat  # its values, if they are in the memory of the host
            if not kernels.is_readable(flat) and kernels.is_readable(x):
                known = as_numpy(x).astype(dtype)
        if kernels.is_readable(known):
            check.neurons(name, check.finite(name, known, dtype), self.kind)
        if self._split:
            flat = kernels.to_mesh(flat, self._split[0])
        return tuple(ops.shape(flat)), shaped(flat, (-1, width))

    @property
    def _equations(self) -> Equations:
        return equations(
            Settings(
                self.kind,
                self.normalizer,
                self.similarity,
                self.degree,
                self.order,
                self.chunk_size,
                *self._split,
            )
        )

    def _by_blocks(self, name: str, states: Tensor, *options: Any) -> Tensor:
        stored = self._table, self._count, self.beta
        return self._equations.by_blocks(name, states, *stored, *options)
