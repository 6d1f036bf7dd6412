"""Monotonic attention: the attended position never moves back.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value, U units.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers import scores
from keras_attention.layers.base import sampling
from keras_attention.layers.base.arguments import number, one_of, positive
from keras_attention.layers.base.attention_layer import Prepared
from keras_attention.layers.base.one_head_attention import (
    OneHeadAttention,
    full_mask,
    scan_queries,
)
from keras_attention.layers.base.serialization import export
from keras_attention.numerics import masks
from keras_attention.numerics.precision import to_float32
from keras_attention.ops.alignments import MONOTONIC, monotonic

Tensor = Any


@export
class MonotonicAttention(OneHeadAttention):
    """Each query scans the keys, starting at the key where the last query stopped.

        p_ts = sigmoid(score(q_t, k_s) + r + noise)
        a_ts = p_ts Σ_{i ≤ s} a_{t−1,i} Π_{i ≤ j < s} (1 − p_tj)
        output = Σ_s a_ts value_s

    The scan stops at key s with probability p_ts, and a_ts is the probability that
    query t stops at key s. During training, a is soft, and noise drives p towards 0
    and 1. At inference, the scan may be "hard": it stops at the first key with
    p ≥ 0.5. A scan can pass the last key without a stop. Its weights then sum to less
    than one, and the missing probability is lost for all later queries.

    The state is the last alignment, (B, S), in float32 or a wider dtype. The initial
    state is 1 at position 0 and 0 elsewhere. A fully masked query does not change it.

    Args:
        score: "dot", "scaled_dot", "cosine", "rbf" or "general", or a score such as
            `AdditiveScore(units=64)`. Defaults to the paper's score,
            `AdditiveScore(units, normalize=True)`.
        units: U, the width of the default score's hidden layer; defaults to the
            query's width.
        mode: how to compute a: "parallel", "recursive" or "hard"; see
            `keras_attention.ops.alignments.monotonic`.
        inference_mode: the mode at inference; None for the same as `mode`. The method
            `attend` has no argument `training`. It uses `mode` if its argument `random`
            is the tensor that `sample` returns during training (zeros if there is no
            noise), and `inference_mode` if `random` is None.
        sigmoid_noise: the standard deviation of the noise added during training.
        score_bias: the initial value of the learned scalar r. A negative value makes
            the first scans longer.
        seed: the random seed of the noise.

    Call arguments:
        query: (B, T, Dq), or (B, Dq) for one query. With one query, the outputs have
            no T axis.
        value: (B, S, V).
        key: (B, S, Dk); defaults to the value.
        query_mask, value_mask, key_mask, attention_mask, use_causal_mask: as in
            `Attention`.
        return_attention_scores: whether to return the weights as well.
        training: whether to add noise and use `mode`.

    Returns:
        The output (B, T, V) in the compute dtype. With `return_attention_scores=True`,
        also the weights (B, T, S).

    Masking:
        Boolean, True = may attend. The scan does not stop at masked keys.

    Raises:
        ValueError: for an unknown score or mode, units below 1, noise below 0, a mask
            with the wrong dtype, rank or shape, or tensors with widths that do not
            fit the score.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import MonotonicAttention
    >>> q, v = np.ones((2, 3, 7), "float32"), np.ones((2, 5, 11), "float32")
    >>> layer = MonotonicAttention(score_bias=-1.0)
    >>> tuple(layer(q, v, training=True).shape)
    (2, 3, 11)

    Reference:
        Raffel et al., "Online and linear-time attention by enforcing monotonic
        alignments" (2017), section 2.
    """

    scans_queries = True

    def __init__(
        self,
        score: Any = None,
        units: int | None = None,
        mode: str = "parallel",
        inference_mode: str | None = "hard",
        sigmoid_noise: float = 0.0,
        score_bias: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if score is not None:
            self.score = scores.get(score, dtype=self.dtype_policy)
        self.units = None if units is None else positive("units", units)
        self.is_default = score is None
        self.mode = one_of("mode", mode, MONOTONIC)
        self.inference_mode = one_of(
            "inference_mode", inference_mode, (*MONOTONIC, None)
        )
        self.sigmoid_noise = number("sigmoid_noise", sigmoid_noise, least=0)
        self.score_bias = score_bias
        self.seed = seed
        self.seed_generator = (
            keras.random.SeedGenerator(seed) if sigmoid_noise else None
        )

    def build(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> None:
        if self.score is None:
            units = self.units or query_shape[-1]
            self.score = scores.AdditiveScore(
                units, normalize=True, dtype=self.dtype_policy, name="score"
            )
        super().build(query_shape, value_shape, key_shape)
        self.bias = self.add_weight(
            name="bias",
            shape=(),
            initializer=keras.initializers.Constant(self.score_bias),
        )

    def sample(self, shape: tuple[Any, Any, Any], training: bool | None) -> Any:
        """Returns noise (B, T, S) or zeros (B, T, 1) during training, else None."""
        if not training:
            return None
        if not self.sigmoid_noise:
            return ops.zeros((*shape[:2], 1))
        return self.sigmoid_noise * sampling.normal(shape, self.seed_generator)

    def state_shapes(self, shape: tuple[Any, Any]) -> list[tuple]:
        return [shape]

    def initial_state(self, prepared: Prepared) -> Any:
        zeros = ops.zeros_like(to_float32(prepared.value[..., 0]))  # (B, S)
        is_first = ops.equal(masks.positions(ops.shape(prepared.value)[1]), 0)
        return ops.where(is_first, ops.ones_like(zeros), zeros)

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        mode = self.mode if random is not None else self.inference_mode or self.mode
        mask = full_mask(mask, query, ops.shape(prepared.value)[1])
        stops = self._stops(query, prepared.key, mask, random)  # p for all queries

        def attend_step(last: Tensor, inputs: tuple) -> tuple[Tensor, Tensor]:
            weights = ops.cast(monotonic(inputs[0], last, mode), last.dtype)  # (B, S)
            return weights, weights

        state, weights = scan_queries(attend_step, state, (stops,), mask)
        weights = ops.cast(weights, prepared.value.dtype)  # (B, T, S)
        return ops.matmul(weights, prepared.value), weights, state

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {**config, "score": None} if self.is_default else config

    def _stops(
        self, query: Tensor, key: Any, mask: Tensor | None, noise: Tensor | None
    ) -> Tensor:
        """Returns p = sigmoid(score(q, k) + r + noise), (B, T, S), 0 where masked."""
        similarity = to_float32(
            self.score.compare(self.score.project_query(query), key)
        )
        similarity = similarity + ops.cast(self.bias, similarity.dtype)
        if noise is not None:
            similarity = similarity + ops.cast(noise, similarity.dtype)
        if mask is None:
            return ops.sigmoid(similarity)
        zeros = ops.zeros_like(similarity)
        # Masked scores may be NaN or infinite. The inner `where` hides these scores
        # from the sigmoid and its gradient.
        return ops.where(mask, ops.sigmoid(ops.where(mask, similarity, zeros)), zeros)
