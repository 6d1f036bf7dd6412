"""Attention that chooses keys: hard and monotonic attention.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value or classes (for
example the words of a vocabulary), U units.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers import scores
from keras_attention.layers.base import sampling
from keras_attention.layers.base.arguments import fraction, number, one_of, positive
from keras_attention.layers.base.attention_layer import Prepared
from keras_attention.layers.base.one_head_attention import (
    OneHeadAttention,
    full_mask,
    scan_queries,
)
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics import masks, normalizers
from keras_attention.numerics.precision import to_float32
from keras_attention.ops import choices
from keras_attention.ops.alignments import MONOTONIC, monotonic

Tensor = Any


class DefaultScoreAttention(OneHeadAttention):
    """Abstract base class of attention with an `AdditiveScore` as the default score."""

    normalizes_score = False  # whether the default score has the argument `normalize`

    def __init__(self, score: Any, units: int | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if score is not None:
            self.score = scores.get(score, dtype=self.dtype_policy)
        self.is_default = score is None
        self.units = None if units is None else positive("units", units)

    def build(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> None:
        if self.score is None:
            self.score = scores.AdditiveScore(
                self.units or query_shape[-1],
                normalize=self.normalizes_score,
                dtype=self.dtype_policy,
                name="score",
            )
        super().build(query_shape, value_shape, key_shape)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {**config, "score": None} if self.is_default else config


@export
class HardAttention(DefaultScoreAttention):
    """Selects one key per query, at random during training, and returns its value.

        p      = softmax(score(query, key))          (B, T, S)
        a_t    ~ p_t, one-hot; at inference, one-hot at the maximum of p_t
        output = a · value                           (B, T, V)

    Sampling has no gradient. The estimator defines how the score learns:

    - "straight_through": a has the gradient of p. The gradient is biased, but the
      model needs no other change.
    - "reinforce": the output has no gradient with respect to the score. The returned
      weights are a, with the gradient of log p of the sampled key. `CarryChoices` and
      the loss `ReinforceLoss` turn this gradient into an unbiased gradient of the
      expected loss.

    Args:
        score: "dot", "scaled_dot", "cosine", "rbf" or "general", or a score such as
            `AdditiveScore(units=64)`. Defaults to `AdditiveScore(units)`.
        units: U, the width of the default score's hidden layer; defaults to the
            query's width.
        estimator: "straight_through" or "reinforce".
        seed: the random seed of the samples.
        expected_rate: the probability, for each sample of a batch in training, that all
            its queries get the expected output p · value in place of a choice. The
            weights are then p, and their sum has no gradient for `ReinforceLoss`. The
            paper uses 0.5, for the robustness of learning. The reason in this package:
            the following layers learn to use the output before the choices are good.

    Call arguments:
        query: (B, T, Dq), or (B, Dq) for one query. With one query, the outputs have
            no T axis.
        value: (B, S, V).
        key: (B, S, Dk); defaults to the value.
        query_mask, value_mask, key_mask, attention_mask, use_causal_mask: as in
            `Attention`.
        return_attention_scores: whether to return the weights as well.
        training: whether to sample a key; otherwise the most probable key is taken.

    Returns:
        The output (B, T, V) in the compute dtype. With `return_attention_scores=True`,
        also the weights a (B, T, S), each 0 or 1, or p with `expected_rate`.

    Masking:
        Boolean, True = may attend. Masked keys are never chosen. A query with all keys
        masked gets weights 0 and output 0.

    Raises:
        ValueError: for an unknown score or estimator, units below 1, an `expected_rate`
            outside [0, 1), a mask with the wrong dtype, rank or shape, or tensors with
            widths that do not fit the score.

    Example:

    >>> import keras, numpy as np
    >>> from keras_attention.layers import HardAttention
    >>> q, v = np.ones((2, 3, 7), "float32"), np.ones((2, 5, 11), "float32")
    >>> output, weights = HardAttention(units=13, seed=1)(
    ...     q, v, return_attention_scores=True, training=True)
    >>> keras.ops.convert_to_numpy(weights).sum(-1).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]

    Reference:
        Xu et al., "Show, attend and tell" (2015), section 4.1; Bengio, Léonard &
        Courville, "Estimating or propagating gradients through stochastic neurons for
        conditional computation" (2013).
    """

    def __init__(
        self,
        score: Any = None,
        units: int | None = None,
        estimator: str = "straight_through",
        seed: int | None = None,
        expected_rate: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(score, units, **kwargs)
        self.estimator = one_of(
            "estimator", estimator, ("straight_through", "reinforce")
        )
        self.seed = seed
        self.expected_rate = fraction("expected_rate", expected_rate)
        self.seed_generator = keras.random.SeedGenerator(seed)

    @property
    def learns_by_weights(self) -> bool:
        return self.estimator == "reinforce"

    def sample(self, shape: tuple[Any, Any, Any], training: bool | None) -> Any:
        """Returns uniform numbers in [0, 1), or None outside training.

        They have the shape (B, T, 1); with `expected_rate`, (B, T, 2), where the second
        number is the same for all T queries.
        """
        if not training:
            return None
        draws = sampling.uniform((*shape[:2], 1), self.seed_generator)
        if not self.expected_rate:
            return draws
        shared = sampling.uniform((shape[0], 1, 1), self.seed_generator)
        return ops.concatenate([draws, shared + ops.zeros_like(draws)], axis=-1)

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        query = self.score.project_query(query)
        similarity = to_float32(self.score.compare(query, prepared.key))  # (B, T, S)
        chances = normalizers.softmax(similarity, mask)  # p
        draws = None if random is None else random[..., :1]
        choice = choices.choose(chances, draws)  # a
        if self.estimator == "reinforce":
            applied = choice
            logs = choices.log_probability(similarity, choice, mask)  # (B, T)
            weights = choices.carry(choice, logs)
        else:
            applied = weights = choices.straight_through(chances, choice)
        if random is not None and self.expected_rate:
            is_expected = random[..., 1:] < self.expected_rate  # (B, T, 1)
            applied = ops.where(is_expected, chances, applied)
            weights = ops.where(is_expected, chances, weights)
        dtype = prepared.value.dtype
        output = ops.matmul(ops.cast(applied, dtype), prepared.value)  # (B, T, V)
        return output, ops.cast(weights, dtype), ()


@export
class MonotonicAttention(DefaultScoreAttention):
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
    normalizes_score = True

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
        super().__init__(score, units, **kwargs)
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


@export
class CarryChoices(Configured, keras.layers.Layer):
    """Adds the log-probabilities of hard choices to logits, for `ReinforceLoss`.

        output = log softmax(logits) + z,    z = Σ log p(choice)

    z contributes only its gradient; its value is 0. A constant added to all logits
    changes neither the softmax nor its gradient, so other losses and metrics do not
    change. `ReinforceLoss` recovers z as log Σ exp(output).

    Args:
        credit: the choices in z. "all": all choices of the sample. "later": for the
            logits at step t, the choices of the steps 1 … t. The choice of a step is
            then credited only with the losses of its own and later steps. "own": for
            the logits at step t, the choice of step t. Use "later" if a choice does not
            affect earlier logits, and "own" if it affects only the logits of its step.
            Each leaves out terms with the mean 0, so the gradient of the loss has the
            same mean and usually a smaller variance.

    Call arguments:
        logits: (B, V), or (B, ..., V), for example one row per word; (B, T, V) if
            `credit` is "later" or "own".
        weights: the weights (B, T, S) or (B, S) returned by a `HardAttention` with
            `estimator="reinforce"`, or a list of such weights.

    Returns:
        A tensor with the shape of the logits, in the compute dtype. It carries no mask:
        the loss must ignore masked labels itself.

    Raises:
        ValueError: for an unknown `credit`, or shapes that do not fit it.

    Example:

    >>> import keras
    >>> from keras_attention.layers import CarryChoices, HardAttention
    >>> from keras_attention.losses import ReinforceLoss
    >>> q, v = keras.Input((7,)), keras.Input((5, 11))
    >>> found, weights = HardAttention(units=13, estimator="reinforce")(
    ...     q, v, return_attention_scores=True)
    >>> output = CarryChoices()(keras.layers.Dense(3)(found), weights)
    >>> keras.Model([q, v], output).compile("adam", ReinforceLoss())
    """

    input_ranks: ClassVar[Any] = {"logits": (2, 9)}

    def __init__(self, credit: str = "all", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.credit = one_of("credit", credit, ("all", "later", "own"))
        self.supports_masking = self.built = True

    def call(self, logits: Tensor, weights: Any) -> Tensor:
        logs = to_float32(logits)
        logs = logs - ops.logsumexp(logs, axis=-1, keepdims=True)
        every = weights if isinstance(weights, (list, tuple)) else [weights]
        for choice in every:
            full = ops.cast(choice, logs.dtype)
            if self.credit == "all":
                chosen = ops.sum(full, axis=tuple(range(1, len(full.shape))))  # (B,)
                chosen = ops.reshape(chosen, (-1,) + (1,) * (len(logs.shape) - 1))
            else:
                self._check_steps(logits, choice)
                chosen = ops.sum(full, axis=-1, keepdims=True)  # (B, T, 1)
                if self.credit == "later":
                    chosen = ops.cumsum(chosen, axis=1)
            logs = logs + (chosen - ops.stop_gradient(chosen))
        return ops.cast(logs, self.compute_dtype)

    def _check_steps(self, logits: Tensor, weights: Tensor) -> None:
        """Raises a ValueError unless each row of logits belongs to one query."""
        shapes = tuple(logits.shape), tuple(weights.shape)
        steps = [shape[1] for shape in shapes if isinstance(shape[1], int)]
        if [len(shape) for shape in shapes] != [3, 3] or len({*steps}) > 1:
            raise ValueError(
                f"With credit={self.credit!r}, `logits` must have the shape (batch, "
                "steps, classes), and `weights` (batch, steps, keys). Received: "
                f"logits.shape={shapes[0]}, weights.shape={shapes[1]}"
            )

    def compute_output_spec(self, logits: Tensor, weights: Any) -> keras.KerasTensor:
        return keras.KerasTensor(logits.shape, self.compute_dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None
