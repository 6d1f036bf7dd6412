"""The protocol of all attention layers.

Layers and models that contain an attention layer (`AttentionRNN`, Transformer blocks)
only use the methods of this protocol. Any attention layer can therefore replace any
other.

Shapes: B batch, T queries, S keys, P positions of a cache, H heads, Dq, Dk widths,
V width of a value.
"""

from __future__ import annotations

import abc
from numbers import Integral, Number
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.checked import as_boolean, check_usable
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.base.serialization import Configured
from keras_attention.numerics import masks, normalizers
from keras_attention.ops.sequence import loop

Tensor = Any


class Prepared(NamedTuple):
    """A prepared memory; the first axis of each tensor is the batch."""

    key: Any  # projected keys (B, S, ·), or a structure of such tensors
    value: Tensor  # (B, S, V); with heads (B, S, G, V)
    mask: Tensor | None = None  # (B, S) or (B, T, S), True = may attend


class AttentionProtocol(abc.ABC):
    """Abstract base class of what attends: our layers, and adapters of other layers.

    A subclass has the attributes `name`, `path`, `built` and `compute_dtype` of a
    layer. It defines `prepare` and `attend_from_state`. If a step depends on the
    previous one, it also defines `initial_state` and `state_shapes`. If it uses random
    numbers, it also defines `sample`.
    """

    name: Any
    path: Any
    built: Any
    compute_dtype: Any

    returns_weights: Any = True  # some adapted layers cannot return weights
    scans_queries = False  # whether T queries are processed in a loop over time

    @property
    def learns_by_weights(self) -> bool:
        """Whether the score gets its gradient only through the returned weights.

        A model that does not use the weights must reject such a layer.
        """
        return False

    @property
    def separates_texts(self) -> bool:
        """Whether a mask can separate several texts that share a row."""
        uses_positions = getattr(getattr(self, "score", None), "uses_positions", False)
        return not (uses_positions or self.state_shapes((1, 1)))

    @property
    def gives_shares(self) -> bool:
        """Whether weights are not negative and sum to at most 1.

        A callable normalizer other than `normalizers.linear` is trusted to do this.
        """
        return getattr(self, "normalizer", None) not in ("linear", normalizers.linear)

    def check_widths(self, query: Tensor, value: Tensor, key: Tensor) -> None:  # noqa: B027
        """Raises a ValueError if the widths do not fit each other."""

    @abc.abstractmethod
    def prepare(
        self, value: Tensor, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Prepared:
        """Projects a memory once, for many calls of `attend`.

        Use it inside the `call` of another layer, after this layer is built.

        Args:
            value: (B, S, V).
            key: (B, S, Dk); defaults to the value.
            mask: booleans (B, S), True = may attend.

        Returns:
            The prepared memory for `attend`.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
        """

    @abc.abstractmethod
    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        """Computes the equations of the layer for T queries, starting from a state.

        Args:
            query: (B, T, Dq), in the compute dtype.
            prepared: the result of `prepare`. Its own mask is not applied here.
            mask: booleans that broadcast to (B, T, S), or None.
            state: the state before the first query. In `step`, a tuple: the positions
                (T,) of the queries and (S,) of the keys, or `()`. Layers need not use
                them.
            random: the result of `sample`, or None.
            return_weights: whether to return the weights.

        Returns:
            The output (B, T, ·), the weights (B, T, S) or (B, H, T, S), and the state
            after the last query. With `return_weights=False`, the weights may be None.
        """

    def attend(
        self, query: Tensor, prepared: Prepared, state: Any = None, random: Any = None
    ) -> tuple[Tensor, Tensor, Any]:
        """Attends to a prepared memory with one query or T queries.

        Use it inside the `call` of another layer, after this layer is built.

        Args:
            query: (B, T, Dq) or (B, Dq).
            prepared: the result of `prepare`.
            state: the state returned by the previous step; defaults to
                `initial_state`.
            random: the result of `sample` for these queries: tensors (B, T, ·), or (B,
                ·) for a query (B, Dq). With None, there is no dropout and no other
                randomness.

        Returns:
            The output (B, T, ·), the weights (B, T, S) or (B, H, T, S), and the state.
            For a query (B, Dq), the output and the weights have no T axis. The state is
            `()` if no step depends on the previous one.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
        """
        return self._attend_once("attend", query, prepared, state, random, True)

    def context(
        self, query: Tensor, prepared: Prepared, state: Any = None
    ) -> tuple[Tensor, Any]:
        """Attends without returning the weights, with a fused kernel if possible.

        Inside `record_attention`, the weights are recorded.

        Args:
            query: (B, T, Dq) or (B, Dq).
            prepared: the result of `prepare`.
            state: the state returned by the previous step.

        Returns:
            The output, (B, T, ·) or (B, ·) like the query, and the state.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
        """
        recording = is_recording()
        output, weights, state = self._attend_once(
            "context", query, prepared, state, None, recording
        )
        if recording:
            record(self.path, weights)
        return output, state

    def _attend_once(
        self,
        method: str,
        query: Tensor,
        prepared: Prepared,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        """The body of `attend` and of `context`, which `method` names."""
        check_usable(self, method, query)
        query = ops.cast(query, self.compute_dtype)
        single = len(query.shape) == 2
        if self.scans_queries and not single:
            loop.check_length(query.shape[1])
        if single:
            query = ops.expand_dims(query, 1)  # (B, 1, Dq)
            if random is not None:
                random = keras.tree.map_structure(lambda x: x[:, None], random)
        if state is None:
            state = self.initial_state(prepared)
        mask = prepared.mask
        if mask is not None and len(mask.shape) == 2:
            mask = ops.expand_dims(mask, 1)  # (B, 1, S)
        output, weights, state = self.attend_from_state(
            query, prepared, mask, state, random, return_weights
        )
        if single:
            output = ops.squeeze(output, 1)
            weights = None if weights is None else ops.squeeze(weights, -2)
        return output, weights, state

    def initial_state(self, prepared: Prepared) -> Any:
        """Returns the initial state: a structure of tensors (B, ·), or `()`."""
        return ()

    def state_shapes(self, shape: tuple[Any, Any]) -> list[tuple]:
        """Returns the shapes of the tensors of `initial_state` for `shape` (B, S)."""
        return []

    def sample(self, shape: tuple[Any, Any, Any], training: bool | None) -> Any:
        """Samples the random numbers for T queries, before any loop.

        Args:
            shape: (B, T, S), integers or tensors.
            training: whether the layer is in training mode.

        Returns:
            A structure of tensors (B, T, ·), or None if the layer is not random.
        """
        return None

    def output_width(self, query_width: int, value_width: int) -> int:
        """Returns the width of the output for the widths of query and value."""
        return value_width

    def weights_shape(self, batch: Any, queries: Any, keys: Any) -> tuple:
        """Returns the shape of the weights, (B, T, S) or (B, H, T, S)."""
        return (batch, queries, keys)

    def initial_cache(
        self, batch: Any, length: int, width: int | None = None
    ) -> Prepared:
        """Returns an empty cache for `step`.

        Args:
            batch: B, an integer or a tensor.
            length: P, the largest number of steps.
            width: the width of the inputs; layers with projections do not need it.

        Raises:
            RuntimeError: if this layer is not built.
            ValueError: if a step of this layer depends on the previous one.
        """
        self._check_steps("initial_cache")
        shape = (batch, cache_length(length))
        inputs = ops.zeros((*shape, positive("width", width or 0)), self.compute_dtype)
        return self.prepare(inputs, mask=ops.zeros(shape, "bool"))

    def step(
        self, inputs: Tensor, cache: Any, index: Any, mask: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Computes causal self-attention of new inputs to all inputs so far.

        The output equals `layer(x, x, use_causal_mask=True)` at these positions of x.
        Use it inside the `call` of another layer, after this layer is built, and
        without gradients.

        Args:
            inputs: (B, T, D), the next T inputs, such as a prompt, or (B, D), the next
                input.
            cache: the cache from `initial_cache` or the previous step. Do not reuse it
                afterwards: torch writes to it in place.
            index: the position of the first new input, an integer or a tensor.
            mask: booleans (B, T), or (B,) for one input. Inputs with False, such as the
                padding of a prompt, are never attended to.

        Returns:
            The output, (B, T, ·) or (B, ·) like the inputs, and the cache.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
            ValueError: if a step of this layer depends on the previous one, or the
                cache is full.
        """
        self._check_steps("step", inputs)
        inputs = ops.cast(inputs, self.compute_dtype)
        single = len(inputs.shape) == 2
        mask = masks.check("mask", as_boolean("mask", mask), tuple(inputs.shape[:-1]))
        if mask is None:
            mask = ops.ones(ops.shape(inputs)[:-1], "bool")
        if single:
            inputs, mask = ops.expand_dims(inputs, 1), ops.expand_dims(mask, 1)
        t = masks.positions(ops.shape(inputs)[1], index)
        memory, s, state, cache = self._extend(cache, inputs, mask, index, t)
        seen = s[None] <= t[:, None]  # (T, P)
        seen = ops.logical_and(ops.expand_dims(memory.mask, 1), seen[None])  # (B, T, P)
        recording = is_recording()
        output, weights, _ = self.attend_from_state(
            inputs, memory, seen, state, None, recording
        )
        if recording:
            record(self.path, ops.squeeze(weights, -2) if single else weights)
        return (ops.squeeze(output, 1) if single else output), cache

    def _extend(
        self, cache: Prepared, inputs: Tensor, mask: Tensor, index: Any, t: Tensor
    ) -> tuple[Prepared, Tensor, Any, Prepared]:
        """Adds inputs (B, T, D) at the positions t (T,) to a cache, from `index` on.

        Returns the memory to attend to, the positions of its entries (P,), the state
        for `attend_from_state`, and the cache.
        """
        check_room(inputs, cache, index)
        cache = keras.tree.map_structure(
            lambda old, late: write_steps(old, late, index),
            cache,
            self.prepare(inputs, mask=mask),
        )
        s = masks.positions(ops.shape(cache.mask)[1])
        return cache, s, (t, s), cache

    def _check_steps(self, method: str, inputs: Tensor | None = None) -> None:
        check_usable(self, method, inputs)
        if self.state_shapes((1, 1)):
            raise ValueError(
                f"Layer {self.name!r} cannot attend to its own inputs step by step: "
                "each step depends on the weights of the previous step, and the number "
                "of keys grows. Use this layer with a memory (`prepare` and `attend`), "
                f"or use another attention layer. Received: {method} of a "
                f"{type(self).__name__}"
            )


class AttentionLayer(AttentionProtocol, Configured, keras.layers.Layer):
    """Abstract base class of all attention layers.

    A subclass defines `call`, `prepare` and `attend_from_state`. If a step depends on
    the previous one, it also defines `initial_state` and `state_shapes`. If it uses
    random numbers, it also defines `sample`.
    """

    float_inputs = ("query", "value", "key", "inputs")
    takes_lists = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True


def hide_queries(prepared: Prepared, query_mask: Tensor | None) -> Prepared:
    """Hides a memory from queries with False in the mask (B, T) or (B,), if any."""
    if query_mask is None:
        return prepared
    rows = query_mask if len(query_mask.shape) == 2 else query_mask[:, None]
    mask = ops.expand_dims(rows, 2)  # (B, T, 1)
    if prepared.mask is not None:
        mask = ops.logical_and(mask, ops.expand_dims(prepared.mask, 1))  # (B, T, S)
    return prepared._replace(mask=mask)


def cache_length(length: Any) -> Any:
    """Returns the length of a cache, at least 1 unless it is known in a trace alone."""
    is_known = length is None or isinstance(length, (Number, str))
    return positive("length", length) if is_known else length


def check_room(inputs: Tensor, cache: Prepared, index: Any) -> None:
    """Raises a ValueError if inputs (B, T, D) of known size do not fit into a cache."""
    size, steps = cache.value.shape[1], inputs.shape[1]
    if not (isinstance(size, Integral) and isinstance(steps, Integral)):
        return
    if steps > size:
        raise ValueError(
            "`inputs` must not be longer than the cache. Received: "
            f"inputs.shape={tuple(inputs.shape)}, length={size}"
        )
    if isinstance(index, Integral) and index + steps > size:
        raise ValueError(
            f"`cache` is full: it has {size} places. Received: index={index}, "
            f"inputs.shape={tuple(inputs.shape)}"
        )


def write_steps(old: Tensor, new: Tensor, index: Any) -> Tensor:
    """Writes `new` (B, T, ...) to the cache `old` (B, P, ...) from `index` on."""
    if new.shape[1] == 1:
        return kernels.write(old, index, new[:, 0])
    return ops.slice_update(old, (0, index, *[0] * (len(old.shape) - 2)), new)
