"""Attention with any score and any normalizer.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention.layers import scores
from keras_attention.layers.export import export
from keras_attention.layers.recording import is_recording, record
from keras_attention.ops import attend, dot_product_attention, masks, normalizers
from keras_attention.ops.scores import check_widths

Tensor = Any


class Prepared(NamedTuple):
    """A memory that is ready to be attended to: keys projected, values, mask."""

    key: Tensor  # (B, S, ·)
    value: Tensor  # (B, S, V)
    mask: Tensor | None  # (B, S)


@export
class Attention(keras.layers.Layer):
    """Weights each value by how alike its key is to the query.

        weights = normalize(score(query, key))      (B, T, S)
        output  = weights · value                   (B, T, V)

    With `score="dot"` and nothing else it has no weights: called as `layer(x, x)` it
    is the parameter-free self-attention with which the story of attention begins.

    Args:
        score: "dot", "scaled_dot", "cosine", "rbf", "general", or a score such as
            `AdditiveScore(units=64)`.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15", "hardmax" or
            "linear"; or a registered callable f(scores, mask).
        dropout: the fraction of weights that are dropped while training.
        seed: of the dropout.

    Call arguments:
        query: (B, T, Dq), or (B, Dq) for one query, whose T axis is then left out of
            everything that is returned.
        value: (B, S, V).
        key: (B, S, Dk), by default the value.
        query_mask: booleans (B, T).
        value_mask: booleans (B, S).
        key_mask: booleans (B, S).
        attention_mask: booleans (T, S) or (B, T, S); (B, S) for one query.
        return_attention_scores: whether to return the weights, too.
        training: whether to drop weights.
        use_causal_mask: whether query t may see only keys 0 … t.

    Returns:
        (B, T, V) in the compute dtype; with `return_attention_scores=True` also the
        weights (B, T, S), before dropout.

    Masking:
        Boolean, True = may attend. Masks that the tensors carry are used where none
        is given. A query that may attend to nothing gets weights 0 and output 0. The
        output carries the mask that the query tensor carries.

    Raises:
        ValueError: for an unknown score or normalizer, a mask of another dtype, rank
            or shape, or tensors whose widths do not fit the score.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import Attention
    >>> words = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    >>> output, weights = Attention()(words, words, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 3), (2, 5, 5))
    """

    def __init__(
        self,
        score: Any = "dot",
        normalizer: Any = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.score = scores.get(score, dtype=self.dtype_policy)
        self.normalizer = resolve_normalizer(normalizer)
        self._normalize = normalizers.get(self.normalizer)
        if not 0 <= dropout < 1:
            raise ValueError(
                f"`dropout` must be at least 0 and below 1. Received: dropout={dropout}"
            )
        self.dropout = dropout
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None
        self.supports_masking = True

    def build(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> None:
        key_shape = key_shape or value_shape or query_shape
        if not self.score.built:
            self.score.build(query_shape, key_shape)
        self.built = True

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
        mask = masks.attention_mask(
            tuple(query.shape[:2]),
            tuple(key.shape[:2]),
            query_mask,
            value_mask,
            key_mask,
            attention_mask,
            use_causal_mask,
            (ops.shape(query)[1], ops.shape(key)[1]),
        )
        prepared = Prepared(self.score.project_key(key), value, None)
        dropout = self.dropout if training else 0.0
        explicit = return_attention_scores or is_recording() or dropout
        if self._is_fused and not explicit:
            output, weights = self._fused(query, prepared, mask), None
        else:
            output, weights = self._explicit(query, prepared, mask, dropout)
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
        weights = self.score.compute_output_spec(query, key)
        shape = (*query.shape[:-1], value.shape[-1])
        output = keras.KerasTensor(shape, self.compute_dtype)
        weights = keras.KerasTensor(weights.shape, self.compute_dtype)
        return (output, weights) if return_attention_scores else output

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
        return Prepared(self.score.project_key(key), value, mask)

    def attend(
        self, query: Tensor, prepared: Prepared, state: Any = None
    ) -> tuple[Tensor, Tensor, Any]:
        """One step of attention over a prepared memory, without dropout.

        Args:
            query: (B, T, Dq) or (B, Dq).
            prepared: what `prepare` returned.
            state: what the last step returned as its state; this layer has none.

        Returns:
            The output (B, T, V), the weights (B, T, S) and the state `()`; without
            the T axis where the query had none.

        Raises:
            RuntimeError: if this layer is not built, or the tensors are symbolic.
        """
        self._check_usable("attend", query)
        single = len(query.shape) == 2
        query, _, _ = one_query(ops.cast(query, self.compute_dtype), None, None)
        mask = None if prepared.mask is None else prepared.mask[:, None, :]
        output, weights = self._explicit(query, prepared, mask, 0.0)
        if single:
            output, weights = (ops.squeeze(x, axis=1) for x in (output, weights))
        return output, weights, ()

    def get_config(self) -> dict[str, Any]:
        score = keras.saving.serialize_keras_object(self.score)
        # The layer that is made from this builds its score, under its own name.
        score.pop("build_config", None)
        return {
            **super().get_config(),
            "score": score,
            "normalizer": serialize_normalizer(self.normalizer),
            "dropout": self.dropout,
            "seed": self.seed,
        }

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask

    @property
    def _is_fused(self) -> bool:
        return self.normalizer == "softmax" and isinstance(self.score, scores.DotScore)

    def _fused(self, query: Tensor, prepared: Prepared, mask: Tensor | None) -> Tensor:
        check_widths(query, prepared.key)
        scale = None if self.score.scaled else 1.0
        output = dot_product_attention(
            query[:, :, None, :],  # one head: (B, T, 1, D)
            prepared.key[:, :, None, :],
            prepared.value[:, :, None, :],
            None if mask is None else mask[:, None],
            scale,
        )
        return ops.squeeze(output, axis=2)

    def _explicit(
        self, query: Tensor, prepared: Prepared, mask: Tensor | None, dropout: float
    ) -> tuple[Tensor, Tensor]:
        return attend(
            self.score.project_query(query),
            prepared.key,
            prepared.value,
            self.score.compare,
            self._normalize,
            mask,
            dropout,
            self.seed_generator,
        )

    def _check_usable(self, method: str, tensor: Tensor) -> None:
        if not self.built:
            raise RuntimeError(
                f"`{method}` needs a layer that is built: call or build layer "
                f"{self.name!r} first, or its weights would have no owner."
            )
        if isinstance(tensor, keras.KerasTensor):
            raise RuntimeError(
                f"`{method}` is for use inside a layer's `call`; on symbolic tensors "
                f"the weights of layer {self.name!r} would be left out of the model. "
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
    if None not in (key.shape[1], value.shape[1]) and key.shape[1] != value.shape[1]:
        raise ValueError(
            "`key` and `value` must have the same length (axis 1). "
            f"Received: key.shape={tuple(key.shape)}, value.shape={tuple(value.shape)}"
        )


def resolve_normalizer(identifier: Any) -> Any:
    """A normalizer's name, or the callable itself, from either or its config."""
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    normalizers.get(identifier)
    return identifier


def serialize_normalizer(normalizer: Any) -> Any:
    """What a config holds of a normalizer: its name, or where to find the callable."""
    if callable(normalizer):
        return keras.saving.serialize_keras_object(normalizer)
    return normalizer
