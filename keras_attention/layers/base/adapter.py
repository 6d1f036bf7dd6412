"""Adapts attention layers of Keras, and user layers with the same call.

Shapes: B batch, T queries, S keys, H heads, Dq, Dk widths, V width of a value.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.attention_layer import (
    AttentionLayer,
    AttentionProtocol,
    Prepared,
)
from keras_attention.layers.base.checked import (
    Masks,
    check_call,
    check_usable,
    merge_masks,
)
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.base.serialization import Configured
from keras_attention.numerics import masks
from keras_attention.ops.scores import check_widths

Tensor = Any
Attention = Any  # an `AttentionLayer`, or a `KerasAttention` around another layer
TENSOR_CALL = {"query", "value", "key"}  # as `keras.layers.MultiHeadAttention`
LIST_CALL = {"mask", "return_attention_scores"}  # as `keras.layers.Attention`
WINDOWED = keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention


def as_attention(layer: Any, name: str = "attention") -> Attention:
    """Returns an `AttentionLayer` unchanged, and wraps any other attention layer.

    The adapter tracks and saves nothing. An outer layer stores the layer itself and
    calls this function each time it uses the layer.
    """
    if isinstance(layer, AttentionLayer):
        return layer
    # All layers of this package are subclasses of `Configured`.
    if isinstance(layer, keras.layers.Layer) and not isinstance(layer, Configured):
        names = {*signature(layer.call).parameters}
        is_list = isinstance(layer, keras.layers.Attention)
        is_list |= names >= LIST_CALL
        if is_list or names >= TENSOR_CALL:
            return KerasAttention(layer)
    if isinstance(layer, type):
        raise ValueError(
            f"`{name}` must be an attention layer, not a class: pass an instance. "
            f"Received: {name}={layer!r}"
        )
    raise ValueError(
        f"`{name}` must be an attention layer: one of keras_attention, or a Keras "
        "layer with the call of keras.layers.MultiHeadAttention, (query, value, "
        "key=None, …), or that of keras.layers.Attention, ([query, value, key], "
        "mask=…, …). "
        f"Received: {name}={layer!r}"
    )


class KerasAttention(AttentionProtocol):
    """Wraps a layer with Keras' call, and adds the methods of `AttentionLayer`.

    A fully masked query gets output and weights 0. The masks that the tensors carry
    stay unchanged, even if the layer would modify them.
    """

    def __init__(self, layer: keras.layers.Layer) -> None:
        self.layer = layer
        self.name, self.path = layer.name, layer.path
        self._options = signature(layer.call).parameters
        self._list = not {*self._options} >= TENSOR_CALL

    @property
    def returns_weights(self) -> bool:
        """Whether the layer can return its weights."""
        return "return_attention_scores" in self._options

    @property
    def separates_texts(self) -> bool:
        """Whether the layer takes a mask for each pair of a query and a key."""
        return "attention_mask" in self._options

    @property
    def built(self) -> bool:
        """Whether the layer is built."""
        return self.layer.built

    @property
    def compute_dtype(self) -> str:
        """The compute dtype of the layer."""
        return self.layer.compute_dtype

    def _window(self, in_steps: bool = True) -> int | None:
        """Returns the sliding window of a layer of Keras, or None."""
        known, window = type(self.layer) in WINDOWED, None
        for name in ("_sliding_window", "sliding_window"):
            window = getattr(self.layer, name, window)
        if in_steps and not (known or window is None):
            raise ValueError(
                f"Layer {self.name!r} cannot attend step by step: a class of your own "
                "may use its window in another way than Keras does. Use no window, or "
                "an attention of keras_attention or Keras itself. Received: "
                f"sliding_window={window!r} of {type(self.layer).__name__}"
            )
        return window if known else None

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        """Builds the layer for these shapes."""
        key_shape = value_shape if key_shape is None else key_shape
        shapes = tuple(query_shape), tuple(value_shape), tuple(key_shape)
        names = signature(self.layer.build).parameters
        if self._list:
            self.layer.build(list(shapes))
        elif "value_shape" in names:
            named = dict(zip(("query_shape", "value_shape", "key_shape"), shapes))
            self.layer.build(**{n: s for n, s in named.items() if n in names})
        else:  # the layer creates its weights in its first call
            query, value, key = (
                keras.KerasTensor(shape, self.compute_dtype) for shape in shapes
            )
            self._attend(query, Prepared(key, value))

    def check_widths(self, query: Tensor, value: Tensor, key: Tensor) -> None:
        """Raises a ValueError if Keras' `Attention` cannot compare these widths."""
        if isinstance(self.layer, keras.layers.Attention):
            check_widths(query, key)

    def __call__(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        if self._list and attention_mask is not None:
            raise ValueError(
                f"`attention_mask` must be None: layer {self.name!r} "
                f"({type(self.layer).__name__}) only takes masks of queries and of "
                "values. Received: attention_mask of shape "
                f"{getattr(attention_mask, 'shape', attention_mask)}"
            )
        key = value if key is None else key
        call_masks = Masks(query_mask, value_mask, key_mask, attention_mask)
        query, call_masks, *_ = check_call(query, value, key, call_masks)
        self.check_widths(query, value, key)
        sizes = ops.shape(query)[1], ops.shape(key)[1]
        mask = merge_masks(call_masks, sizes if use_causal_mask else None)
        window = self._window(in_steps=False)
        if window is not None:  # it may leave a query without a key
            mask = masks.merge(mask, masks.sliding_window(*sizes, window)[None])
        recording = is_recording()
        output, weights = self._attend(
            query,
            Prepared(key, value, masks.merge(call_masks.value, call_masks.key)),
            mask,
            return_attention_scores or recording is not None,
            training,
            use_causal_mask,
        )
        if recording is not None:
            record(self.path, weights)
        return (output, weights) if return_attention_scores else output

    def prepare(
        self, value: Tensor, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Prepared:
        """Returns the memory itself, which the layer projects at each step.

        Its key is () if it is the value.
        """
        check_usable(self, "prepare", value)
        mask = masks.check("mask", mask, tuple(value.shape[:2]))
        return Prepared(() if key is None else key, value, mask)

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        """Attends to a prepared memory; see `AttentionLayer.attend_from_state`."""
        if self._window() is not None:
            return self._attend_in_window(query, prepared, mask, state, return_weights)
        if self._list and mask is not None:  # it only gets the masks of the keys
            memory_mask: Any = prepared.mask
            if mask.shape[1] != 1 and len(memory_mask.shape) == 2:
                # In a step, each query has its own mask: one query at a time.
                outputs, weights = [], []
                for n in range(query.shape[1]):
                    row = slice(n, n + 1)
                    output, shown, _ = self.attend_from_state(
                        query[:, row], prepared, mask[:, row], (), None, return_weights
                    )
                    outputs.append(output)
                    weights.append(shown)
                output = ops.concatenate(outputs, axis=1)
                shown = ops.concatenate(weights, axis=-2) if return_weights else None
                return output, shown, ()
            prepared = prepared._replace(mask=mask)
        return *self._attend(query, prepared, mask, return_weights, False), ()

    def _attend_in_window(
        self, query: Tensor, prepared: Prepared, mask: Any, state: Any, weights: bool
    ) -> tuple[Tensor, Tensor | None, Any]:
        """Attends with queries at later positions than 0.

        Keras lets row i attend to column j if |i − j| < w. Both therefore count
        positions backwards: from the last query in a step, else from its last key.
        """
        window: Any = self._window()
        (batch, steps), size = ops.shape(query)[:2], ops.shape(prepared.value)[1]
        if isinstance(state, tuple):  # in a step of causal self-attention
            t, ahead = state[0], 0
        else:
            t = masks.positions(steps, ops.cast(state[:, None], "int32"))  # (B, T)
            state, ahead = state + ops.cast(steps, state.dtype), window - 1
        s = masks.positions(size)
        mask = masks.merge(mask, masks.near(t, s, window))
        if isinstance(size, int) and max(size, steps) <= window:
            return *self._attend(query, prepared, mask, weights, False), state
        last = ops.broadcast_to(t[..., -1:], (batch, 1)) + ahead
        column = last - masks.positions(steps + ahead + max(window - 1, 1))  # (B, N)
        index = ops.clip(column, 0, size - 1)
        key, value = (
            x if isinstance(x, tuple) else ops.take_along_axis(x, index[..., None], 1)
            for x in prepared[:2]
        )  # (B, N, ·)
        mask = ops.broadcast_to(mask, (batch, steps, size))
        mask = ops.take_along_axis(mask, index[:, None], 2)  # (B, T, N)
        mask = ops.logical_and(mask, (column == index)[:, None])
        rows, prepared = ((0, 0), (ahead, 0), (0, 0)), Prepared(key, value)
        query, mask = (ops.pad(ops.flip(x, 1), rows) for x in (query, mask))
        output, shown = self._attend(query, prepared, mask, weights, False)
        if shown is not None:
            is_at = ops.cast(column[:, None, :, None] == s, shown.dtype)
            shown = ops.matmul(ops.flip(shown[..., ahead:, :], 2), is_at)
        return ops.flip(output[:, ahead:], 1), shown, state

    def initial_state(self, prepared: Prepared) -> Any:
        shapes = self.state_shapes(ops.shape(prepared.value)[:2])
        return ops.zeros(shapes[0], "float32") if shapes else ()

    def state_shapes(self, shape: tuple[Any, Any]) -> list[tuple]:
        return [] if self._window() is None else [shape[:1]]

    def _check_steps(self, method: str, inputs: Tensor | None = None) -> None:
        check_usable(self, method, inputs)

    def sample(self, shape: tuple[Any, Any, Any], training: bool | None) -> None:
        """Returns None, or raises an error for a random layer during training."""
        # In a compiled loop, it would sample the same mask at each step, or fail.
        if training and any(
            getattr(part, "seed_generator", None) is not None
            and (getattr(part, "rate", 0) or getattr(part, "dropout", 0))
            for part in self.layer._flatten_layers()
        ):
            raise ValueError(
                f"`attention` must have no dropout inside a loop over time: layer "
                f"{self.name!r} draws its own at each step. Use dropout=0, or an "
                "attention of keras_attention, which draws before the loop. "
                f"Received: attention={self.layer!r}"
            )

    def output_width(self, query_width: int, value_width: int) -> int:
        """Returns the width of the output, as inferred from the layer."""
        query = keras.KerasTensor((None, 2, query_width), self.compute_dtype)
        value = keras.KerasTensor((None, 2, value_width), self.compute_dtype)
        return self._attend(query, Prepared(value, value))[0].shape[-1]

    def weights_shape(self, batch: Any, queries: Any, keys: Any) -> tuple:
        """Returns (B, H, T, S) if the layer has a number of heads, else (B, T, S)."""
        for name in ("num_heads", "num_query_heads"):
            if isinstance(getattr(self.layer, name, None), int):
                return (batch, getattr(self.layer, name), queries, keys)
        return (batch, queries, keys)

    def _attend(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None = None,
        return_weights: bool = False,
        training: bool | None = None,
        causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Calls the layer and sets the outputs of fully masked queries to 0.

        `mask` merges all masks, also the causal one: booleans like (B, T, S), or None.
        """
        key, value, of_keys = prepared
        key = value if isinstance(key, tuple) else key
        options: dict[str, Any] = {}
        if "training" in self._options:
            options["training"] = training
        if return_weights:
            if not self.returns_weights:
                raise ValueError(
                    f"Layer {self.name!r} cannot return its weights: its call has no "
                    "argument `return_attention_scores`. Received: "
                    f"attention={self.layer!r}"
                )
            options["return_attention_scores"] = True
        is_valid: Any = None if mask is None else _has_key(mask)  # (B, T, 1)
        # A softmax over no key gives NaN, and so does its gradient, even if the output
        # is replaced by 0. Fully masked rows are therefore open during the call.
        if self._list:
            if of_keys is not None:
                if len(of_keys.shape) == 3:  # see `hide_queries`
                    of_keys = ops.any(of_keys, axis=1)
                options["mask"] = [None, ops.logical_or(of_keys, ~_has_key(of_keys))]
            if causal:
                options["use_causal_mask"] = True
        elif mask is not None:
            if "attention_mask" not in self._options:
                raise ValueError(
                    f"Layer {self.name!r} cannot be masked: its call has no "
                    f"argument `attention_mask`. Received: attention={self.layer!r}"
                )
            shape = (*ops.shape(query)[:2], ops.shape(value)[1])
            mask = ops.broadcast_to(ops.logical_or(mask, ~is_valid), shape)
            options["attention_mask"] = mask
        with kernels.without_masks(query, value, key):
            if self._list:
                result = self.layer([query, value, key], **options)
            else:
                result = self.layer(query, value, key=key, **options)
        output, weights = result if return_weights else (result, None)
        if is_valid is None:
            return output, weights
        output = ops.where(is_valid, output, ops.zeros_like(output))
        if weights is not None:
            heads = len(weights.shape) == 4
            rows = ops.expand_dims(is_valid, 1) if heads else is_valid
            weights = ops.where(rows, weights, ops.zeros_like(weights))
        return output, weights


def check_learns_by_output(attention: Attention, name: str = "attention") -> None:
    """Raises a ValueError if an attention learns only by weights that are not used."""
    if attention.learns_by_weights:
        raise ValueError(
            f"`{name}` must learn by its output. Layer {attention.name!r} learns by "
            "the weights that it returns, if they reach a `CarryChoices`. Here they do "
            f"not, so it would never learn. Received: {name}={attention!r}"
        )


def _has_key(mask: Tensor) -> Tensor:
    """Returns where a row of a mask (..., S) allows a key, (..., 1)."""
    return ops.any(mask, axis=-1, keepdims=True)
