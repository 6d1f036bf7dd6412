"""Bahdanau's additive score.

Shapes: B batch, T queries, S keys, Dq and Dk widths, U units.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.layers.scores.score import Score, dense, scale_vector
from keras_attention.numerics.precision import HALF, to_float32
from keras_attention.ops import scores

Tensor = Any


@export
class AdditiveScore(Score):
    """vᵀ tanh(W_q q + W_k k + b), Bahdanau's score.

    Args:
        units: U, the width of the hidden layer.
        use_bias: whether to add the bias b.
        normalize: whether to replace v by g·v/‖v‖, with a learned scalar g that
            starts at √(1/U) (TensorFlow Addons' normed Bahdanau score).
        exact: whether to compute tanh for each pair; see `ops.scores.additive`.
        kernel_initializer: the initializer of W_q, W_k and v.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import AdditiveScore
    >>> q, k = np.ones((1, 2, 3), "float32"), np.ones((1, 5, 4), "float32")
    >>> tuple(AdditiveScore(units=7)(q, k).shape)
    (1, 2, 5)

    Reference:
        Bahdanau et al., "Neural machine translation by jointly learning to align and
        translate" (2015), appendix A.1.2; the normalized form: Salimans and Kingma,
        "Weight normalization" (2016), equation 2.
    """

    widths_may_differ = True

    def __init__(
        self,
        units: int,
        use_bias: bool = True,
        normalize: bool = False,
        exact: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = positive("units", units)
        self.use_bias = use_bias
        self.normalize = normalize
        self.exact = exact
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Any, key_shape: Any = None) -> None:
        key_shape = query_shape if key_shape is None else key_shape
        self.query_dense = dense(self, self.units, "query")
        self.query_dense.build(query_shape)
        self.key_dense = dense(self, self.units, "key", self.use_bias)
        self.key_dense.build(key_shape)
        self.scale = scale_vector(self)
        if self.normalize:
            size = keras.initializers.Constant(self.units**-0.5)
            self.gain = self.add_weight(name="gain", shape=(), initializer=size)
        self.built = True

    def project_query(self, query: Tensor) -> Tensor:
        return self.query_dense(query)  # (B, T, U)

    def project_key(self, key: Tensor) -> Tensor:
        return self.key_dense(key)  # (B, S, U)

    def precompute_key(self, key: Tensor) -> Any:
        if self.exact:
            return key
        half = self.compute_dtype in HALF
        return scores.precompute_key(key) if half else kernels.precompute_key(key)

    def compare(self, query: Tensor, key: Any) -> Tensor:
        scale = self._normalized() if self.normalize else self.scale
        scale = ops.cast(scale, query.dtype)
        if self.compute_dtype in HALF:
            return scores.additive(query, key, scale, self.exact)
        return kernels.additive(query, key, scale, self.exact)

    def _normalized(self) -> Tensor:
        """Returns g · v / ‖v‖."""
        scale = to_float32(self.scale)
        length = ops.sqrt(ops.maximum(ops.sum(scale**2), 1e-24))
        return to_float32(self.gain) * scale / length
