"""Bahdanau's attention, with and without coverage.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value, U units.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.attention.attention import NormalizedAttention
from keras_attention.layers.base.arguments import clone_initializer
from keras_attention.layers.base.attention_layer import Prepared
from keras_attention.layers.base.one_head_attention import full_mask, scan_queries
from keras_attention.layers.base.serialization import export
from keras_attention.layers.scores import AdditiveScore
from keras_attention.numerics.precision import to_float32
from keras_attention.ops.attention import weighted_values

Tensor = Any


@export
class BahdanauAttention(NormalizedAttention):
    """Additive attention: projects queries and keys, then adds them.

        score   = vᵀ tanh(W_q q + W_k k + b)        (B, T, S)
        weights = normalize(score)                  (B, T, S)
        output  = weights · value                   (B, T, V)

    With `coverage=True`, the hidden layer also adds w_c c_s. The coverage c_s is the
    sum of all earlier weights of key s. The layer then processes the queries one after
    the other. Its state is c, (B, S), in float32 or a wider dtype.
    `keras_attention.losses.CoverageLoss` penalizes repeated attention to the same key.

    Args:
        units: U, the width of the hidden layer.
        use_bias: whether to add the bias b.
        normalize: whether to replace v by g·v/‖v‖, with a learned scalar g that
            starts at √(1/U) (TensorFlow Addons' normed Bahdanau score).
        coverage: whether the score depends on the coverage.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15", "hardmax" or
            "linear"; or a registered callable f(scores, mask).
        dropout: the fraction of attention weights dropped during training.
        exact: whether to compute tanh for each pair; see `AdditiveScore`.
        kernel_initializer: the initializer of W_q, W_k, v and w_c.
        seed: the random seed of the dropout.

    Call arguments:
        query: (B, T, Dq), or (B, Dq) for one query. With one query, the outputs have
            no T axis.
        value: (B, S, V).
        key: (B, S, Dk); defaults to the value.
        query_mask, value_mask, key_mask, attention_mask, use_causal_mask: as in
            `Attention`.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.

    Returns:
        The output (B, T, V) in the compute dtype. With `return_attention_scores=True`,
        also the weights (B, T, S) before dropout.

    Masking:
        Boolean, True = may attend. A query with all keys masked gets weights 0 and
        output 0, and adds nothing to the coverage.

    Raises:
        ValueError: for units below 1, an unknown normalizer, or a mask with the wrong
            dtype, rank or shape.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import BahdanauAttention
    >>> q, v = np.ones((2, 3, 7), "float32"), np.ones((2, 5, 11), "float32")
    >>> output, weights = BahdanauAttention(units=13)(
    ...     q, v, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 3, 11), (2, 3, 5))

    Reference:
        Bahdanau et al., "Neural machine translation by jointly learning to align and
        translate" (2015), appendix A.1.2; coverage: See et al., "Get to the point"
        (2017), equations 10 and 11.
    """

    def __init__(
        self,
        units: int,
        use_bias: bool = True,
        normalize: bool = False,
        coverage: bool = False,
        normalizer: Any = "softmax",
        dropout: float = 0.0,
        exact: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        score = AdditiveScore(
            units,
            use_bias,
            normalize,
            exact,
            kernel_initializer,
            dtype=kwargs.get("dtype"),
            name="score",
        )
        super().__init__(score, normalizer, dropout, seed, **kwargs)
        self.units = units
        self.use_bias = use_bias
        self.normalize = normalize
        self.coverage = self.scans_queries = coverage
        self.exact = exact
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> None:
        super().build(query_shape, value_shape, key_shape)
        if self.coverage:
            self.coverage_kernel = self.add_weight(
                name="coverage",
                shape=(1, self.units),
                initializer=clone_initializer(self.kernel_initializer),
            )

    def precompute_key(self, key: Tensor) -> Any:
        return key if self.coverage else self.score.precompute_key(key)

    def state_shapes(self, shape: tuple[Any, Any]) -> list[tuple]:
        return [shape] if self.coverage else []

    def initial_state(self, prepared: Prepared) -> Any:
        if not self.coverage:
            return ()
        return ops.zeros_like(to_float32(prepared.value[..., 0]))  # c, (B, S)

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        query = self.score.project_query(query)  # all queries at once: (B, T, U)
        if not self.coverage:
            output, weights = weighted_values(
                query,
                prepared.key,
                prepared.value,
                self.score.compare,
                self._normalize,
                mask,
                dropout_mask=random,
            )
            return output, weights, ()
        kernel = ops.cast(self.coverage_kernel, query.dtype)  # w_c, (1, U)

        def attend_step(coverage: Tensor, inputs: tuple) -> tuple[Tensor, Any]:
            step: list[Any] = [None if x is None else x[:, None] for x in inputs]
            query, dropout_mask, mask = step  # (B, 1, ·)
            covered = ops.cast(ops.expand_dims(coverage, -1), query.dtype)  # (B, S, 1)
            output, weights = weighted_values(
                query,
                prepared.key + covered * kernel,  # W_k k + b + w_c c, (B, S, U)
                prepared.value,
                self.score.compare,
                self._normalize,
                mask,
                dropout_mask=dropout_mask,
            )
            output, weights = output[:, 0], weights[:, 0]  # (B, V), (B, S)
            return coverage + ops.cast(weights, coverage.dtype), (output, weights)

        mask = full_mask(mask, query, ops.shape(prepared.value)[1])
        state, outputs = scan_queries(attend_step, state, (query, random), mask)
        return *outputs, state
