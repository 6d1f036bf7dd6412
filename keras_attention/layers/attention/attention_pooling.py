"""Attentive pooling: learned queries over a sequence.

Shapes: B batch, S keys, D width, N queries per head, H heads, E = D / H, U units.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers import scores
from keras_attention.layers.base.arguments import (
    check_shape,
    clone_initializer,
    fraction,
    positive,
    resolve_normalizer,
)
from keras_attention.layers.base.checked import call_arguments
from keras_attention.layers.base.recording import is_recording, record
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics import masks
from keras_attention.ops import attend
from keras_attention.ops.scores import dot

Tensor = Any


class ContextScore(scores.Score):
    """qᵀ tanh(W k + b), the score "additive", with learned queries q of width U."""

    widths_may_differ = True

    def __init__(self, units: int, kernel_initializer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = positive("units", units)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Any, key_shape: Any = None) -> None:
        self.hidden = scores.dense(
            self, self.units, "hidden", bias=True, activation="tanh"
        )
        self.hidden.build(key_shape)
        self.built = True

    def project_key(self, key: Tensor) -> Tensor:
        return self.hidden(key)  # (B, S, U)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return dot(query, key)


@export
class AttentionPooling(Configured, keras.layers.Layer):
    """Pools a sequence into one or a few vectors with learned queries.

        score   = u_nᵀ tanh(W x_s + b)              (B, N, S)
        weights = normalize(score)                  (B, N, S)
        output  = Σ_s weights_ns x_s                (B, N, D)

    These are the equations of the score "additive"; its queries u_n have width U. Any
    other score compares queries of width D with the entries x_s directly.

    With several heads, each head has N separate queries, which are compared with the
    full entries x_s. The entries are then split into H slices of equal width, and head
    h pools slice h. The heads share the weights of the score.

    Args:
        score: "additive", or a score of `Attention`: "dot", "scaled_dot", "cosine",
            "rbf", "general", or a score such as `AdditiveScore(units=64)`, which is
            Bahdanau's vᵀ tanh(W_q q + W_k k + b).
        units: U, for "additive" only; defaults to D.
        num_queries: N, the number of returned vectors.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15", "hardmax" or
            "linear"; or a registered callable f(scores, mask).
        num_heads: H, which must divide D.
        dropout: the fraction of attention weights dropped during training.
        kernel_initializer: the initializer of the queries and of W in "additive".
        seed: the random seed of the dropout.

    Call arguments:
        inputs: x, (B, S, D).
        mask: booleans (B, S), True = may attend; defaults to the mask that the inputs
            carry.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.

    Returns:
        The output, (B, D) with one query or (B, N, D) with several, in the compute
        dtype. With `return_attention_scores=True`, also the weights before dropout:
        (B, S) or (B, N, S) with one head, (B, H, S) or (B, H, N, S) with several. The
        output carries no mask.

    Masking:
        A fully masked sequence gets weights 0 and output 0.

    Raises:
        ValueError: for an unknown score or normalizer; a size below 1; `units` with a
            score other than "additive"; a number of heads that does not divide D; a
            mask with the wrong dtype, rank or shape; or inputs that are not of rank 3.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import AttentionPooling
    >>> words = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    >>> output, weights = AttentionPooling(units=16)(
    ...     words, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 8), (2, 5))

    Reference:
        Yang et al., "Hierarchical attention networks for document classification"
        (2016), equations 5 to 7; several queries: Lin et al., "A structured
        self-attentive sentence embedding" (2017), equations 6 and 7.
    """

    float_inputs = ("inputs", "memory")

    def __init__(
        self,
        score: Any = "additive",
        units: int | None = None,
        num_queries: int = 1,
        normalizer: Any = "softmax",
        num_heads: int = 1,
        dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.score_name = score if isinstance(score, str) else None
        self.is_additive = score == "additive"
        if units is not None and not self.is_additive:
            raise ValueError(
                "`units` must be None with another score than 'additive'. "
                f"Received: units={units}, score={score!r}"
            )
        self.units = None if units is None else positive("units", units)
        self.score: Any = (
            None if self.is_additive else scores.get(score, dtype=self.dtype_policy)
        )
        self.num_queries = positive("num_queries", num_queries)
        self.normalizer = resolve_normalizer(normalizer)
        self.num_heads = positive("num_heads", num_heads)
        self.dropout = fraction("dropout", dropout)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None

    def build(self, inputs_shape: Any) -> None:
        self._check_shape(inputs_shape)
        width = inputs_shape[-1]
        if self.is_additive:
            width = self.units or width
            self.score = ContextScore(
                width,
                clone_initializer(self.kernel_initializer),
                dtype=self.dtype_policy,
                name="score",
            )
        self.queries = self.add_weight(
            name="queries",
            shape=(self.num_heads * self.num_queries, width),
            initializer=clone_initializer(self.kernel_initializer),
        )
        if not self.score.built:
            self.score.build((inputs_shape[0], *self.queries.shape), inputs_shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        mask = masks.check("mask", mask, tuple(inputs.shape[:2]))
        batch, keys, width = ops.shape(inputs)
        heads, queries = self.num_heads, self.num_queries
        # Project the queries once, not once per sample.
        query = ops.expand_dims(ops.cast(self.queries, inputs.dtype), 0)
        query = self.score.project_query(query)  # (1, H·N, ·)
        query = ops.broadcast_to(query, (batch, *query.shape[1:]))
        value = ops.reshape(inputs, (batch, keys, heads, width // heads))

        def compare(query: Tensor, key: Tensor) -> Tensor:
            similarity = self.score.compare(query, key)  # (B, H·N, S)
            return ops.reshape(similarity, (batch, heads, queries, keys))

        output, weights = attend(
            query,
            self.score.project_key(inputs),
            ops.transpose(value, (0, 2, 1, 3)),  # (B, H, S, E)
            compare,
            self.normalizer,
            None if mask is None else ops.expand_dims(mask, (1, 2)),
            self.dropout if training else 0.0,
            self.seed_generator,
        )  # (B, H, N, E), (B, H, N, S)
        output = ops.transpose(output, (0, 2, 1, 3))  # (B, N, H, E)
        each = () if queries == 1 else (queries,)
        output = ops.reshape(output, (batch, *each, width))
        weights = weights if each else ops.squeeze(weights, 2)
        weights = ops.squeeze(weights, 1) if heads == 1 else weights
        if is_recording():
            record(self.path, weights)
        return (output, weights) if return_attention_scores else output

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        call = call_arguments(self, args, kwargs)
        inputs = call["inputs"]
        self._check_shape(inputs.shape)
        masks.check("mask", call.get("mask"), tuple(inputs.shape[:2]))
        batch, keys, width = inputs.shape
        each = () if self.num_queries == 1 else (self.num_queries,)
        heads = () if self.num_heads == 1 else (self.num_heads,)
        output = keras.KerasTensor((batch, *each, width), self.compute_dtype)
        shape = (batch, *heads, *each, keys)
        weights = keras.KerasTensor(shape, self.compute_dtype)
        return (output, weights) if call.get("return_attention_scores") else output

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {**config, "score": self.score_name or config["score"]}

    def _check_shape(self, shape: Any) -> None:
        check_shape("inputs", shape, "(batch, length, width)", known_width=True)
        if shape[-1] % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the width of the inputs. "
                f"Received: num_heads={self.num_heads}, inputs.shape={tuple(shape)}"
            )
