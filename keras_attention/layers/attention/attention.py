"""Attention with normalized scores as weights: any score, Bahdanau's and Luong's.

Shapes: B batch, T queries, S keys, Dq, Dk widths, V width of a value, U units.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers import scores
from keras_attention.layers.base.arguments import (
    clone_initializer,
    fraction,
    one_of,
    positive,
    resolve_normalizer,
)
from keras_attention.layers.base.attention_layer import Prepared
from keras_attention.layers.base.one_head_attention import (
    OneHeadAttention,
    full_mask,
    scan_queries,
)
from keras_attention.layers.base.serialization import export
from keras_attention.numerics import masks, normalizers
from keras_attention.numerics.precision import to_float32
from keras_attention.ops import alignments, dot_product_attention
from keras_attention.ops.attention import weighted_values

Tensor = Any


class NormalizedAttention(OneHeadAttention):
    """Base class of attention with normalized scores as weights, and dropout.

    weights = normalize(score(query, key))      (B, T, S)
    output  = weights · value                   (B, T, V)
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
        self.dropout = fraction("dropout", dropout)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None
        softmax = self.normalizer == "softmax"
        self._is_fused = softmax and type(self.score) is scores.DotScore

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        if self._is_fused and not return_weights and random is None:
            output = dot_product_attention(
                ops.expand_dims(query, 2),  # one head: (B, T, 1, D)
                ops.expand_dims(prepared.key, 2),
                ops.expand_dims(prepared.value, 2),
                None if mask is None else mask[:, None],
                None if self.score.scaled else 1.0,
            )
            return output[:, :, 0], None, state
        output, weights = weighted_values(
            self.score.project_query(query),
            prepared.key,
            prepared.value,
            self.score.compare,
            self._normalize,
            mask,
            dropout_mask=random,
        )
        return output, weights, state


@export
class Attention(NormalizedAttention):
    """Weights each value by the similarity of its key and the query.

        weights = normalize(score(query, key))      (B, T, S)
        output  = weights · value                   (B, T, V)

    The default score "dot" has no learned parameters, so `layer(x, x)` computes
    self-attention without parameters.

    Args:
        score: "dot", "scaled_dot", "cosine", "rbf", "general", or a score such as
            `AdditiveScore(units=64)`.
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15", "hardmax" or
            "linear"; or a registered callable f(scores, mask).
        dropout: the fraction of attention weights dropped during training.
        seed: the random seed of the dropout.

    Call it like `keras.layers.MultiHeadAttention`, as `layer(query, value, key)`, not
    with a list.

    Call arguments:
        query: (B, T, Dq), or (B, Dq) for one query. With one query, the outputs have
            no T axis.
        value: (B, S, V).
        key: (B, S, Dk); defaults to the value.
        query_mask: booleans (B, T).
        value_mask: booleans (B, S).
        key_mask: booleans (B, S).
        attention_mask: booleans (T, S) or (B, T, S); (B, S) for one query.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.
        use_causal_mask: whether query t may attend only to keys 0 … t.

    Returns:
        The output (B, T, V) in the compute dtype. With `return_attention_scores=True`,
        also the weights (B, T, S) before dropout.

    Masking:
        Boolean, True = may attend. If a mask is not given, the mask that the tensor
        carries is used. A query with all keys masked gets weights 0 and output 0. The
        output carries the mask of the query tensor.

    Raises:
        ValueError: for an unknown score or normalizer, a mask with the wrong dtype,
            rank or shape, or tensors with widths that do not fit the score.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import Attention
    >>> words = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    >>> output, weights = Attention()(words, words, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 3), (2, 5, 5))
    """


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
        score = scores.AdditiveScore(
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


@export
class LuongAttention(NormalizedAttention):
    """Attention over all keys, or over a window of keys around a position p.

        global    a_s = normalize(score(q, k_s))
        local-m   as global, but only over the keys in [p − D, p + D], with p = t
        local-p   as local-m, times exp(−(s − p)² / (2σ²)), with
                  p = n · sigmoid(v_pᵀ tanh(W_p q)) and σ = D/2

    The positions s = 0, 1, … and their number n count only unmasked keys, so padding
    does not shift them. t counts, from 0, the queries that have at least one unmasked
    key. A local-m query more than D positions past the last key attends to nothing.

    The state of local-m is t, (B,), in float32. The other modes have no state.

    Args:
        score: "dot", "general" (qᵀ W k), "concat" (vᵀ tanh(W [q; k])), "location"
            (W q, from the query only); or a score such as `DotScore(scaled=True)`.
        locality: "global", "local-m" or "local-p".
        window: D, the largest distance of a key from p.
        units: U, the width of the hidden layer of "concat" and of local-p. "concat"
            requires it; for local-p it defaults to the query's width.
        scale: whether to multiply the scores by a learned scalar that starts at 1
            (TensorFlow Addons' scaled Luong score).
        max_length: the largest number of keys; required by "location".
        normalizer: "softmax", "softmax1", "sparsemax", "entmax15", "hardmax" or
            "linear"; or a registered callable f(scores, mask).
        dropout: the fraction of attention weights dropped during training.
        kernel_initializer: the initializer of all matrices.
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
        output 0.

    Raises:
        ValueError: for an unknown score, locality or normalizer; a size that is
            missing or below 1; a mask with the wrong dtype, rank or shape; or tensors
            with widths that do not fit the score.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attention.layers import LuongAttention
    >>> q, v = np.ones((2, 3, 7), "float32"), np.ones((2, 5, 11), "float32")
    >>> layer = LuongAttention("general", locality="local-m", window=1)
    >>> output, weights = layer(q, v, return_attention_scores=True)
    >>> ops.convert_to_numpy(weights)[0, 0].round(4).tolist()
    [0.5, 0.5, 0.0, 0.0, 0.0]

    Reference:
        Luong et al., "Effective approaches to attention-based neural machine
        translation" (2015), section 3.
    """

    def __init__(
        self,
        score: Any = "general",
        locality: str = "global",
        window: int = 10,
        units: int | None = None,
        scale: bool = False,
        max_length: int | None = None,
        normalizer: Any = "softmax",
        dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        sizes = {"units": units, "max_length": max_length}
        made = _score(score, sizes, kernel_initializer, kwargs.get("dtype"))
        super().__init__(made, normalizer, dropout, seed, **kwargs)
        self.score_name = score if isinstance(score, str) else None
        self.locality = one_of("locality", locality, ("global", "local-m", "local-p"))
        self.window = positive("window", window)
        self.units = None if units is None else positive("units", units)
        self.scale = scale
        self.max_length = max_length
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> None:
        super().build(query_shape, value_shape, key_shape)
        if self.scale:
            self.gain = self.add_weight(name="gain", shape=(), initializer="ones")
        if self.locality == "local-p":
            units = self.units or query_shape[-1]
            # Saved files use the names of these attributes as paths of the weights.
            self.place_hidden = scores.dense(
                self, units, "place_hidden", activation="tanh"
            )
            self.place_hidden.build(query_shape)
            self.place = scores.dense(self, 1, "place")
            self.place.build((*query_shape[:-1], units))

    def state_shapes(self, shape: tuple[Any, Any]) -> list[tuple]:
        return [shape[:1]] if self.locality == "local-m" else []

    def initial_state(self, prepared: Prepared) -> Any:
        if self.locality != "local-m":
            return ()
        return ops.zeros((ops.shape(prepared.value)[0],), "float32")  # t

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        if self.locality == "global" and not self.scale:
            return super().attend_from_state(
                query, prepared, mask, state, random, return_weights
            )
        gaussian = None  # used by local-p
        if self.locality != "global":
            keys = ops.shape(prepared.value)[1]
            s = alignments.positions(mask, keys)  # (B, T, S)
            if self.locality == "local-m":
                p, state = _count_queries(query, mask, state)  # p = t
            else:
                p = self._predict(query, alignments.number_of_positions(mask, keys))
                gaussian = alignments.gaussian_window(p, s, self.window)
            mask = masks.merge(mask, alignments.local_window(p, s, self.window))

        def compare(query: Tensor, key: Any) -> Tensor:
            similarity = self.score.compare(query, key)
            if not self.scale:
                return similarity
            return similarity * ops.cast(self.gain, similarity.dtype)

        def normalize(similarity: Tensor, mask: Tensor | None) -> Tensor:
            weights = self._normalize(similarity, mask)
            if gaussian is None:
                return weights
            weights = to_float32(weights)
            return weights * ops.cast(gaussian, weights.dtype)

        output, weights = weighted_values(
            self.score.project_query(query),
            prepared.key,
            prepared.value,
            compare,
            normalize,
            mask,
            dropout_mask=random,
        )
        return output, weights, state

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {**config, "score": self.score_name or config["score"]}

    def _predict(self, query: Tensor, size: Tensor) -> Tensor:
        """Returns p = n · sigmoid(v_pᵀ tanh(W_p q)), float32 (B, T)."""
        logit = self.place(self.place_hidden(query))  # (B, T, 1)
        return size * ops.sigmoid(ops.cast(logit, "float32"))[..., 0]


def _count_queries(
    query: Tensor, mask: Tensor | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the positions t of queries with a key, (B, T), and of the next, (B,)."""
    counted = ops.ones_like(query[..., 0], dtype="float32")  # (B, T)
    if mask is not None:
        counted = ops.where(ops.any(mask, axis=-1), counted, ops.zeros_like(counted))
    t = state[:, None] + ops.cumsum(counted, axis=1) - counted
    return t, state + ops.sum(counted, axis=1)


def _score(
    score: Any, sizes: dict[str, int | None], initializer: Any, dtype: Any
) -> scores.Score:
    """Creates the score with the name `score`, or returns `score` if it is a layer."""
    sized = {
        "concat": (scores.ConcatScore, "units"),
        "location": (scores.LocationScore, "max_length"),
    }
    if not isinstance(score, str) or score == "dot":
        return scores.get(score, dtype=dtype)
    arguments = {"kernel_initializer": initializer, "dtype": dtype, "name": "score"}
    if score == "general":
        return scores.GeneralScore(**arguments)
    if score not in sized:
        scores.check_needs_no_size(score)
        raise ValueError(
            "`score` must be one of ['concat', 'dot', 'general', 'location'] or a "
            f"score such as DotScore(scaled=True). Received: score={score!r}"
        )
    cls, size = sized[score]
    if sizes[size] is None:
        raise ValueError(
            f"`{size}` must be given with score={score!r}. Received: {size}=None"
        )
    return cls(sizes[size], **arguments)
