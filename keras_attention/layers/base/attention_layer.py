"""What every attention layer has in common: one call, one mask rule, one memory.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention.layers.base.recording import is_recording, record
from keras_attention.numerics import masks
from keras_attention.ops import scores

Tensor = Any


class Prepared(NamedTuple):
    """A memory that is ready to be attended to: keys projected, values, mask."""

    key: Tensor  # (B, S, ·)
    value: Tensor  # (B, S, V)
    mask: Tensor | None  # (B, S)
    power: Tensor | None = None  # of the keys, (B, S, ·), where a score has use for it


class AttentionLayer(keras.layers.Layer):
    """The call that all attention layers share, so that one can take another's place.

    It gives a single query its T axis, holds all tensors and masks to their shapes,
    merges the masks, and hands over to `look`, which is a subclass's own. Where keys
    are projected, or widths must fit each other, a subclass says so in `project_key`
    and `check_widths`. Abstract.

    Call arguments:
        query: (B, T, Dq), or (B, Dq) for one query, whose T axis is then left out of
            everything that is returned.
        value: (B, S, V).
        key: (B, S, Dk), by default the value.
        query_mask: booleans (B, T), or (B,) for one query.
        value_mask: booleans (B, S).
        key_mask: booleans (B, S).
        attention_mask: booleans (T, S) or (B, T, S); (B, S) for one query.
        return_attention_scores: whether to return the weights, too.
        training: whether to drop weights.
        use_causal_mask: whether query t may see only keys 0 … t.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def project_key(self, key: Tensor) -> Tensor:
        """What a key becomes before it meets any query: (B, S, ·)."""
        return key

    def raise_key(self, key: Tensor) -> Tensor | None:
        """What else can be computed of a projected key before it meets any query."""
        return None

    def check_widths(self, query: Tensor, value: Tensor, key: Tensor) -> None:
        """Raises a ValueError where the widths do not fit each other."""

    def output_width(self, query: Tensor, value: Tensor) -> int:
        """The width of the output."""
        return value.shape[-1]

    def look(
        self,
        query: Tensor,
        memory: Prepared,
        mask: Tensor | None,
        explicit: bool,
        drawn: Any = None,
    ) -> tuple[Tensor, Tensor | None]:
        """The layer's equations.

        Args:
            query: (B, T, Dq).
            memory: keys (B, S, ·) and values (B, S, V).
            mask: booleans that broadcast to (B, T, S), or None.
            explicit: whether the weights are wanted.
            drawn: what `draw` returned.

        Returns:
            The output (B, T, ·) and the weights (B, T, S), or None where they are
            not wanted and not at hand.
        """
        raise TypeError(f"{type(self).__name__} has to define `look`")

    def draw(self, shape: tuple[Any, Any, Any], training: bool | None) -> Any:
        """The random numbers that T queries need, drawn before any loop.

        Args:
            shape: (B, T, S), numbers or tensors.
            training: whether this is a step of training.

        Returns:
            A structure of tensors (B, T, ·), or None where nothing is random.
        """
        return None

    def initial_state(self, prepared: Prepared) -> Any:
        """What the first step must know: a structure of tensors (B, ·), or `()`."""
        return ()

    def state_shapes(self, shape: tuple[Any, Any]) -> list[tuple]:
        """The shapes of `initial_state`, flat, from (B, S)."""
        return []

    def look_on(
        self,
        query: Tensor,
        memory: Prepared,
        mask: Tensor | None,
        state: Any,
        drawn: Any = None,
    ) -> tuple[Tensor, Tensor, Any]:
        """`look` from a state on; also returns the state behind the last query."""
        output, weights = self.look(query, memory, mask, True, drawn)
        return output, weights, ()

    def call(
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
        key = value if key is None else key
        single = len(query.shape) == 2
        query, query_mask, attention_mask = one_query(query, query_mask, attention_mask)
        check_memory(query, value, key)
        self.check_widths(query, value, key)
        mask = masks.attention_mask(
            tuple(query.shape[:2]),
            tuple(key.shape[:2]),
            query_mask,
            value_mask,
            key_mask,
            attention_mask,
            use_causal_mask,
            (ops.shape(query)[1], ops.shape(key)[1]),
        )  # (B, T, S), or what broadcasts to it
        memory = Prepared(self.project_key(key), value, None)
        explicit = return_attention_scores or is_recording()
        sizes = (*ops.shape(query)[:2], ops.shape(key)[1])
        drawn = self.draw(sizes, training)
        output, weights = self.look(query, memory, mask, explicit, drawn)
        if single:
            output = ops.squeeze(output, axis=1)
            weights = None if weights is None else ops.squeeze(weights, axis=1)
        if is_recording():
            record(self.path, weights)
        return (output, weights) if return_attention_scores else output

    def compute_output_spec(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        return_attention_scores: bool = False,
        **arguments: Any,
    ) -> Any:
        key = value if key is None else key
        check_call(query, value, key, arguments)
        self.check_widths(query, value, key)
        shape = (*query.shape[:-1], self.output_width(query, value))
        output = keras.KerasTensor(shape, self.compute_dtype)
        shape = (*query.shape[:-1], key.shape[1])
        weights = keras.KerasTensor(shape, self.compute_dtype)
        return (output, weights) if return_attention_scores else output

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask

    def prepare(
        self, value: Tensor, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Prepared:
        """Projects a memory's keys once, for many calls of `attend`.

        For use inside another layer's `call`, once this layer is built.

        Args:
            value: (B, S, V).
            key: (B, S, Dk), by default the value.
            mask: booleans (B, S).

        Returns:
            What `attend` takes.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
        """
        self._check_usable("prepare", value)
        key = value if key is None else key
        mask = masks.check("mask", mask, tuple(value.shape[:2]))
        value, key = (ops.cast(x, self.compute_dtype) for x in (value, key))
        key = self.project_key(key)
        return Prepared(key, value, mask, self.raise_key(key))

    def attend(
        self, query: Tensor, prepared: Prepared, state: Any = None, drawn: Any = None
    ) -> tuple[Tensor, Tensor, Any]:
        """One step of attention over a prepared memory, or T of them.

        Args:
            query: (B, T, Dq) or (B, Dq).
            prepared: what `prepare` returned.
            state: what the last step returned as its state; by default that of
                `initial_state`.
            drawn: what `draw` returned for these queries, without the T axis where
                they have none; by default nothing is random, and nothing dropped.

        Returns:
            The output (B, T, ·), the weights (B, T, S), without the T axis where the
            query had none, and the state: `()` where a step need not know of the last.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
        """
        self._check_usable("attend", query)
        single = len(query.shape) == 2
        query, _, _ = one_query(ops.cast(query, self.compute_dtype), None, None)
        if single and drawn is not None:
            drawn = keras.tree.map_structure(lambda x: x[:, None], drawn)
        if state is None:
            state = self.initial_state(prepared)
        mask = None if prepared.mask is None else prepared.mask[:, None, :]
        output, weights, state = self.look_on(query, prepared, mask, state, drawn)
        if single:
            output, weights = (ops.squeeze(x, axis=1) for x in (output, weights))
        return output, weights, state

    def _check_usable(self, method: str, tensor: Tensor) -> None:
        check_usable(self, method, tensor)


def check_usable(layer: keras.layers.Layer, method: str, tensor: Tensor) -> None:
    """Raises a RuntimeError where a method other than the call would lose weights."""
    if not layer.built:
        raise RuntimeError(
            f"`{method}` needs a layer that is built: call or build layer "
            f"{layer.name!r} first, or its weights would have no owner."
        )
    if isinstance(tensor, keras.KerasTensor):
        raise RuntimeError(
            f"`{method}` is for use inside a layer's `call`; on symbolic tensors "
            f"the weights of layer {layer.name!r} would be left out of the model. "
            "Call the layer instead."
        )


def one_query(
    query: Tensor, query_mask: Tensor | None, attention_mask: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gives a single query (B, Dq) and its masks the T axis that they lack."""
    if len(query.shape) != 2:
        return query, query_mask, attention_mask
    if query_mask is not None:
        checked: Tensor = masks.check("query_mask", query_mask, query.shape[:1])
        query_mask = checked[:, None]  # (B, 1)
    if attention_mask is not None:
        shape = (query.shape[0], None)
        checked = masks.check("attention_mask", attention_mask, shape)
        attention_mask = checked[:, None, :]  # (B, 1, S)
    return query[:, None, :], query_mask, attention_mask


def check_call(
    query: Tensor, value: Tensor, key: Tensor, arguments: dict[str, Any]
) -> None:
    """Holds a symbolic call to its ranks and its masks to theirs."""
    single = len(query.shape) == 2
    batch, queries = query.shape[0], 1 if single else query.shape[1]
    check_memory(
        keras.KerasTensor((batch, queries, query.shape[-1])) if single else query,
        value,
        key,
    )
    keys = key.shape[1]
    one = (batch,) if single else (batch, queries)
    masks.check("query_mask", arguments.get("query_mask"), one)
    masks.check("value_mask", arguments.get("value_mask"), (batch, keys))
    masks.check("key_mask", arguments.get("key_mask"), (batch, keys))
    mask = arguments.get("attention_mask")
    if mask is not None:
        shape = (*one, keys) if single or len(mask.shape) != 2 else (queries, keys)
        masks.check("attention_mask", mask, shape)


def check_memory(query: Tensor, value: Tensor, key: Tensor) -> None:
    """Holds query, value and key to rank 3 and one length of the memory."""
    for name, tensor in (("query", query), ("value", value), ("key", key)):
        if len(tensor.shape) != 3:
            raise ValueError(
                f"`{name}` must have shape (batch, length, width). "
                f"Received: {name}.shape={tuple(tensor.shape)}"
            )
    for name, tensor in (("value", value), ("key", key)):
        batches = (query.shape[0], tensor.shape[0])
        if None not in batches and batches[0] != batches[1]:
            raise ValueError(
                f"`query` and `{name}` must have the same batch size (axis 0). "
                f"Received: query.shape={tuple(query.shape)}, "
                f"{name}.shape={tuple(tensor.shape)}"
            )
    if 0 in (key.shape[1], value.shape[1]):
        raise ValueError(
            "`value` and `key` must hold at least one entry to attend to; hide entries "
            f"with `value_mask`. Received: value.shape={tuple(value.shape)}, "
            f"key.shape={tuple(key.shape)}"
        )
    if None not in (key.shape[1], value.shape[1]) and key.shape[1] != value.shape[1]:
        raise ValueError(
            "`key` and `value` must have the same length (axis 1). "
            f"Received: key.shape={tuple(key.shape)}, value.shape={tuple(value.shape)}"
        )


def check_hop(query: Tensor, value: Tensor, key: Tensor) -> None:
    """Holds keys and values to the width of the query, to which a hop adds."""
    scores.check_widths(query, key)
    if query.shape[-1] != value.shape[-1]:
        raise ValueError(
            "`value` must be as wide as `query`, to which what is found is added. "
            f"Received: query.shape={tuple(query.shape)}, "
            f"value.shape={tuple(value.shape)}"
        )
