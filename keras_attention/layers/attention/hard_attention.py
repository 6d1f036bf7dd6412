"""Hard attention: each query selects one key and returns its value.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers import scores
from keras_attention.layers.base import sampling
from keras_attention.layers.base.arguments import fraction, one_of, positive
from keras_attention.layers.base.attention_layer import Prepared
from keras_attention.layers.base.one_head_attention import OneHeadAttention
from keras_attention.layers.base.serialization import export
from keras_attention.numerics import normalizers
from keras_attention.numerics.precision import to_float32
from keras_attention.ops import choices

Tensor = Any


ESTIMATORS = ("straight_through", "reinforce")


@export
class HardAttention(OneHeadAttention):
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
        super().__init__(**kwargs)
        if score is not None:
            self.score = scores.get(score, dtype=self.dtype_policy)
        self.units = None if units is None else positive("units", units)
        self.is_default = score is None
        self.estimator = one_of("estimator", estimator, ESTIMATORS)
        self.seed = seed
        self.expected_rate = fraction("expected_rate", expected_rate)
        self.seed_generator = keras.random.SeedGenerator(seed)

    @property
    def learns_by_weights(self) -> bool:
        return self.estimator == "reinforce"

    def build(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> None:
        if self.score is None:
            units = self.units or query_shape[-1]
            self.score = scores.AdditiveScore(
                units, dtype=self.dtype_policy, name="score"
            )
        super().build(query_shape, value_shape, key_shape)

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

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {**config, "score": None} if self.is_default else config
