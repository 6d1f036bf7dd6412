"""The hop of a key-value memory network.

Shapes: B batch, T queries, M memory slots, D width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import positive, resolve_normalizer
from keras_attention.layers.base.attention_layer import Prepared
from keras_attention.layers.base.checked import check_hop
from keras_attention.layers.base.one_head_attention import OneHeadAttention
from keras_attention.layers.base.serialization import export
from keras_attention.numerics import normalizers
from keras_attention.ops.attention import weighted_values
from keras_attention.ops.scores import dot

Tensor = Any


@export
class KeyValueHop(OneHeadAttention):
    """One hop over a memory of keys and values.

        pᵢ = softmax(qᵀ kᵢ)         the match of key i and question q
        o  = Σᵢ pᵢ vᵢ
        q′ = R (q + o)

    Keys, values and questions are vectors: AΦ_K(k), AΦ_V(v) and AΦ_X(x) in the paper.
    The layer has the same call as every attention layer. Each layer has its own R, so a
    network needs one layer per hop.

    Args:
        features: the number of leading entries of a vector that R multiplies by a
            matrix; R multiplies the other entries by one scalar. A vector may then end
            in an entity code, and R does not mix entities. Defaults to D.
        normalizer: "softmax", or another normalizer of `Attention`.
        kernel_initializer: the initializer of R's matrix. Defaults to the identity, so
            q′ = q + o before training.

    Call arguments:
        query: q, (B, D) or (B, T, D).
        value: v, (B, M, D).
        key: k, (B, M, D); defaults to the value.
        query_mask: booleans (B,) or (B, T).
        value_mask: booleans (B, M).
        key_mask: booleans (B, M).
        attention_mask: booleans (B, M) or (B, T, M).
        return_attention_scores: whether to return the weights p as well.
        training: unused; part of the call of every attention layer.
        use_causal_mask: whether query t may attend only to memories 0 … t.

    Returns:
        q′, with the shape of the query. With `return_attention_scores=True`, also the
        weights (B, M) or (B, T, M).

    Masking:
        Boolean, True = may attend. If all memories are masked, o is 0 and q′ = R q.

    Raises:
        ValueError: if keys or values do not have the width of the query.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import KeyValueHop
    >>> q, k = np.ones((2, 3), "float32"), np.ones((2, 5, 3), "float32")
    >>> v = np.zeros((2, 5, 3), "float32")
    >>> q, p = KeyValueHop()(q, v, k, return_attention_scores=True)
    >>> tuple(q.shape), tuple(p.shape)
    ((2, 3), (2, 5))

    Reference:
        Miller et al., "Key-value memory networks for directly reading documents"
        (2016), section 3.1.
    """

    def __init__(
        self,
        features: int | None = None,
        normalizer: Any = "softmax",
        kernel_initializer: Any = "identity",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.features = None if features is None else positive("features", features)
        self.normalizer = resolve_normalizer(normalizer)
        self._normalize = normalizers.get(self.normalizer)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> None:
        width = query_shape[-1]
        features = width if self.features is None else self.features
        if features > width:
            raise ValueError(
                "`features` must not exceed the query's width. "
                f"Received: features={features}, query.shape={tuple(query_shape)}"
            )
        self.query_dense = keras.layers.Dense(
            features,
            use_bias=False,
            kernel_initializer=self.kernel_initializer,
            dtype=self.dtype_policy,
            name="query",
        )
        self.query_dense.build((*query_shape[:-1], features))
        if features < width:
            self.scale = self.add_weight(name="scale", shape=(), initializer="ones")
        self.built = True

    def check_widths(self, query: Tensor, value: Tensor, key: Tensor) -> None:
        check_hop(query, value, key)

    def attend_from_state(
        self,
        query: Tensor,
        prepared: Prepared,
        mask: Tensor | None,
        state: Any,
        random: Any,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None, Any]:
        # p = softmax(qᵀ k), o = Σ p v
        output, weights = weighted_values(
            query, prepared.key, prepared.value, dot, self._normalize, mask
        )  # (B, T, D), (B, T, M)
        return self._map(query + output), weights, ()  # q′ = R (q + o)

    def _map(self, query: Tensor) -> Tensor:
        """Returns R q: R multiplies features by a matrix, other entries by a scalar."""
        features = self.query_dense.units
        if features == query.shape[-1]:
            return self.query_dense(query)
        mapped = self.query_dense(query[..., :features])
        scaled = query[..., features:] * ops.cast(self.scale, query.dtype)
        return ops.concatenate([mapped, scaled], axis=-1)
