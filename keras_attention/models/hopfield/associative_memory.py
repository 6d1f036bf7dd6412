"""An associative memory that stores patterns and retrieves them by similarity.

Shapes: T states, S patterns, P rows of the pattern table, D width.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from numbers import Real
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import (
    check_model_keywords,
    one_of,
    positive,
)
from keras_attention.layers.base.checked import Checked
from keras_attention.layers.base.serialization import arguments_of, export
from keras_attention.models.base.configured_model import PortableCompilation
from keras_attention.models.base.vector_index import CandidateIndex
from keras_attention.models.hopfield.steps import (
    BLOCK,
    CandidateStep,
    Equations,
    Stored,
    as_numpy,
    at_least_zero,
    block_size,
    compiled,
    concatenate_trajectories,
    iterate_states,
    parts,
    trajectory,
)
from keras_attention.ops.hopfield import energy, retrieval, streaming
from keras_attention.ops.hopfield.patterns import rows

Tensor = Any

KINDS = ("modern", "classical", "polynomial", "exponential")
TOLERANCE, MAX_STEPS = 1e-4, 100
PROVED = {"normalizer": "softmax", "similarity": "dot"}  # assumptions of the theorems


@export
class AssociativeMemory(PortableCompilation, Checked, keras.Model):
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
            (`ops.energy`). Of the other arguments, these kinds use only `degree`
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
        is_number = isinstance(beta, Real) and not isinstance(beta, bool)
        if not (is_number and 0 < beta < math.inf):
            raise ValueError(
                f"`beta` must be a positive and finite number. Received: beta={beta!r}"
            )
        self.kind = one_of("kind", kind, KINDS)
        self.beta = float(beta)
        self.normalizer = one_of("normalizer", normalizer, energy.NORMALIZERS)
        self.similarity = one_of("similarity", similarity, energy.SIMILARITIES)
        self.degree = positive("degree", degree, 2)
        self.order = one_of("order", order, energy.ORDERS)
        self.chunk_size = positive("chunk_size", chunk_size)
        self.supports_masking = True
        self.run_eagerly = True  # `retrieve` compiles its own functions
        self.built = True
        self._count = 0
        self._table: Any = None  # (P, D), the patterns, followed by zeros
        self._split: tuple = ()  # the mesh and the axis over which the table is split

    def __len__(self) -> int:
        """Returns the number of stored patterns."""
        return self._count

    def __bool__(self) -> bool:
        return True  # an empty memory is truthy, too

    @property
    def patterns(self) -> Tensor:
        """The stored patterns, (S, D), in the order of storing; (0, 0) if empty."""
        if not self._count:
            return ops.zeros((0, 0), self.variable_dtype)
        return self._table[: self._count]

    def distribute(self, device_mesh: Any, axis: str = "model") -> None:
        """Splits the patterns over devices, on JAX.

        Each of n devices holds 1/n of the patterns, also of those that are stored
        later. In a step of `retrieve`, each device reads its own patterns, and the
        results are combined. They are equal up to rounding, for every normalizer.
        "sparsemax" and "entmax15" find their threshold from sums over all devices.

        `energy` and `metastable_size` gather the scores of a block of states where
        they sort them. `patterns`, `pattern_separation` and a compiled model that
        contains the memory need all patterns on each device. A saved memory does not
        contain the mesh.

        Args:
            device_mesh: a `keras.distribution.DeviceMesh` or a `jax.sharding.Mesh`.
                None moves all patterns back to one device.
            axis: the axis of the mesh over which the patterns are split. The devices
                along other axes hold copies.

        Raises:
            RuntimeError: if the backend is not JAX, or JAX has no `jax.shard_map`.
            ValueError: if the mesh is no mesh, lacks the axis or has devices of
                another process, or if the memory is binary. An error moves nothing.
        """
        split: tuple = ()
        if device_mesh is not None:
            kernels.axis_sizes(device_mesh, axis, "`distribute`")
            if not kernels.is_local(device_mesh):
                raise ValueError(
                    "`device_mesh` must have devices of this process only. "
                    f"Received: device_mesh={device_mesh!r}"
                )
            if self.kind != "modern":
                raise ValueError(
                    "`kind` must be 'modern' to split the patterns: in a binary "
                    "memory, the rows of zeros that pad a device would change sums. "
                    f"Received: kind={self.kind!r}"
                )
            split = device_mesh, axis
        patterns = self._on_host()
        self._split = split
        self._fill(patterns)

    def store(self, patterns: Any) -> None:
        """Adds patterns.

        Args:
            patterns: (S, D), one pattern per row, with the width of the stored
                patterns. Pass a single pattern x as `x[None]`.

        Raises:
            ValueError: if the shape is not (S, D) with that width, or a value is not
                finite or, in a binary memory, neither −1 nor 1.
        """
        width = self._table.shape[-1] if self._count else None
        array = self._check_patterns(patterns, width)
        if self._count:
            array = np.concatenate([self._on_host(), array])
        self._fill(array)

    def forget(self, indices: int | Iterable[int] | None = None) -> None:
        """Removes patterns. The remaining patterns keep their order.

        Args:
            indices: an index or several indices in any order, counted from 0 in the
                order of storing; None removes all patterns. Boolean masks and patterns
                are not accepted.

        Raises:
            ValueError: if an index is out of range.
        """
        stays = np.full(self._count, indices is not None)
        if indices is not None:
            stays[_as_indices(indices, self._count)] = False
        self._fill(self._on_host()[stays] if stays.any() else np.zeros((0, 0)))

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
        tolerance = at_least_zero("tolerance", tolerance)
        limit = positive("max_steps", max_steps)
        limit = limit if steps is None else positive("steps", steps)
        within = tolerance if steps is None else None
        shape, states = self._states("queries", queries)
        stored, equations = self._stored, self._equations
        size = block_size(states.shape[0], stored[0].shape[0], equations.streams)
        if index is None:
            step = compiled(equations, "step")
        else:
            step = self._candidate_step(index, max_left_out)
        length = None if return_trajectory else 1
        trajectories = [
            deque(iterate_states(step, stored, part, size, limit, within), length)
            for part in parts(states, size)
        ]
        final = [block[-1] for block in trajectories] or [states]
        final = final[0] if len(final) == 1 else ops.concatenate(final)
        final = ops.reshape(ops.cast(final, self.compute_dtype), shape)
        if not return_trajectory:
            return final
        all_states = as_numpy(states)[None]
        if trajectories:
            all_states = concatenate_trajectories(trajectories)
        energies = np.stack([as_numpy(self.energy(x)) for x in all_states])
        return final, trajectory(all_states, energies, tolerance, shape)

    def call(self, queries: Tensor) -> Tensor:
        if not kernels.is_traced(queries):
            return self.retrieve(queries)
        shape, states = self._states("queries", queries)
        equations = self._equations

        def step(states: Tensor, moving: Tensor) -> tuple[Tensor, Tensor]:
            new, moved = equations.step(states, moving, self._stored)
            return new, ops.logical_and(moving, moved > TOLERANCE)

        moving = ops.ones_like(states[:, 0]) > 0  # (T,)
        states, _ = ops.while_loop(
            lambda states, moving: kernels.any_left(moving),
            step,
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
        sizes = self._by_blocks("size", flat, float(mass))
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
            step.run(part, np.ones(part.shape[0], bool), self._stored)[2]
            for part in parts(flat, BLOCK)
        ]
        bounds = np.concatenate([np.zeros(0, "float32"), *weights])
        return ops.convert_to_tensor(bounds.reshape(shape[:-1]))

    def pattern_separation(self) -> Tensor:
        """Computes Δᵢ = xᵢᵀxᵢ − max_{j ≠ i} xᵢᵀxⱼ, (S,), see `ops.retrieval`.

        Δᵢ is computed from dot products for every `similarity` of the memory.
        """
        return self._by_blocks("separation", rows("patterns", self.patterns))

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
            self.patterns, self.beta, distance, delta
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
        dim = self._stored[0].shape[-1]
        if self.kind == "classical":
            return retrieval.classical_capacity(dim)
        if self.kind == "polynomial":
            return retrieval.polynomial_capacity(dim, self.degree)
        if self.kind == "exponential":
            return retrieval.exponential_capacity(dim, flips)
        length = float(np.linalg.norm(as_numpy(self.patterns), axis=-1).mean())
        radius = length / max(dim - 1, 1) ** 0.5
        return retrieval.modern_capacity(dim, self.beta, radius, failure)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self)}

    def _states(self, name: str, x: Any) -> tuple[tuple[Any, ...], Tensor]:
        """Returns the shape of x, and its rows (T, D) in the dtype of the table.

        The rows are in float32 if the table is in half precision.
        """
        flat = rows(name, x)
        table = self._stored[0]
        width = table.shape[-1]
        if flat.shape[-1] != width:
            raise ValueError(
                f"`{name}` must be as wide as the patterns, {width}. "
                f"Received: {name}.shape={tuple(flat.shape)}"
            )
        is_double = keras.backend.standardize_dtype(table.dtype) == "float64"
        dtype = "float64" if is_double else "float32"
        with np.errstate(over="ignore"):  # reported below
            flat = ops.stop_gradient(ops.cast(flat, dtype))
            known = flat  # its values, if they are in the memory of the host
            if not kernels.is_readable(flat) and kernels.is_readable(x):
                known = as_numpy(x).astype(dtype)
        if kernels.is_readable(known):
            _check_values(name, known, dtype, self.kind)
        if self._split:
            flat = kernels.to_mesh(flat, self._split[0])
        return tuple(ops.shape(flat)), ops.reshape(flat, (-1, width))

    @property
    def _stored(self) -> Stored:
        """The table, the number of patterns and β; an error without patterns."""
        if not self._count:
            raise ValueError(
                "The memory is empty. `store` patterns first. Received: len(memory)=0"
            )
        return self._table, self._count, self.beta

    @property
    def _equations(self) -> Equations:
        names = self.kind, self.normalizer, self.similarity, self.degree, self.order
        return Equations(*names, self.chunk_size, *self._split)

    def _by_blocks(self, name: str, states: Tensor, *options: Any) -> Tensor:
        return self._equations.by_blocks(name, states, self._stored, *options)

    def save_own_variables(self, store: Any) -> None:
        store["patterns"] = self._on_host()

    def load_own_variables(self, store: Any) -> None:
        patterns = np.asarray(store["patterns"])
        self._fill(self._check_patterns(patterns) if len(patterns) else patterns)

    def _check_patterns(self, patterns: Any, width: int | None = None) -> np.ndarray:
        """Returns patterns (S, D) in the stored dtype; None allows any width."""
        new = rows("patterns", patterns)
        if len(new.shape) != 2 or 0 in new.shape:
            raise ValueError(
                "`patterns` must be (patterns, width), neither of them 0. "
                f"Received: patterns.shape={tuple(new.shape)}"
            )
        if width is not None and new.shape[-1] != width:
            raise ValueError(
                f"`patterns` must be as wide as those that are stored, {width}. "
                f"Received: patterns.shape={tuple(new.shape)}"
            )
        with np.errstate(over="ignore"):  # reported below
            typed = ops.cast(new, self.variable_dtype)
            return _check_values("patterns", typed, self.variable_dtype, self.kind)

    def _fill(self, patterns: np.ndarray) -> None:
        """Rebuilds the table from `patterns` (S, D) only."""
        count, devices, table = len(patterns), 1, None
        if self._split:
            mesh, axis = self._split
            devices = kernels.axis_sizes(mesh, axis, "`distribute`")[axis]
        if count:
            size = count
            if self.kind == "modern":
                size = streaming.table_size(-(-count // devices), self.chunk_size)
                size = devices * size
            dtype = keras.backend.standardize_dtype(self.variable_dtype)
            padded = np.pad(patterns, ((0, size - count), (0, 0)))
            if self._split:
                table = kernels.to_mesh(padded.astype(dtype), *self._split)
            else:
                table = ops.convert_to_tensor(padded, dtype)
        self._table, self._count = table, count
        # Compiled functions hold the previous patterns as constants.
        self.train_function = self.test_function = self.predict_function = None

    def _on_host(self) -> np.ndarray:
        """Returns the stored patterns (S, D) in the memory of the host."""
        if not self._count:
            return np.zeros((0, 0), "float32")
        return as_numpy(self._table)[: self._count]

    def _candidate_step(
        self, index: CandidateIndex, max_left_out: float
    ) -> CandidateStep:
        self._only("an index", kind="modern", **PROVED)
        table, count, _ = self._stored
        return CandidateStep(index, table, count, max_left_out)

    def _only(self, what: str, **wanted: str) -> None:
        for name, value in wanted.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"`{name}` must be {value!r} for {what}. "
                    f"Received: {name}={getattr(self, name)!r}"
                )


def _check_values(name: str, x: Any, dtype: str, kind: str) -> np.ndarray:
    """Returns values (..., D): finite, and −1 and 1 in all memories but modern ones."""
    array = as_numpy(x)
    wrong = np.argwhere(~np.isfinite(array).all(-1))
    if len(wrong):
        place = ", ".join(map(str, wrong[0]))
        raise ValueError(
            f"`{name}` must be finite in {dtype}. Received: "
            f"{len(wrong)} that are not, such as {name}[{place}]"
        )
    if kind != "modern" and (others := array[np.abs(array) != 1]).size:
        raise ValueError(
            f"`{name}` must be -1 and 1 in a memory of kind {kind!r}. "
            f"Received: {others.size} other numbers, such as {others[0]}"
        )
    return array


def _as_indices(indices: Any, count: int) -> np.ndarray:
    """Returns the selected pattern indices, integers (n,)."""
    if hasattr(indices, "shape"):
        indices = as_numpy(indices)
    elif isinstance(indices, Iterable):
        indices = list(indices)
    array = np.asarray(indices)
    wanted = array.ravel()
    whole = wanted.dtype.kind in "iu" or not wanted.size
    if not whole or np.any((wanted < 0) | (wanted >= count)):
        received = f"indices of shape {array.shape} and dtype {array.dtype}"
        if wanted.size == 1:
            received = f"indices={indices}"
        raise ValueError(
            "`indices` must be whole numbers from 0 to below the number of "
            f"patterns, {count}; not a boolean mask (give `np.flatnonzero(mask)`) and "
            f"not a pattern. Received: {received}"
        )
    return wanted.astype(int)
