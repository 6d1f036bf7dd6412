"""Scores as layers: the weights of a similarity, around the functions of `ops.scores`.

Shapes: B batch, T queries, S keys, Dq and Dk widths, U units.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.arguments import clone_initializer, positive
from keras_attention.layers.export import export
from keras_attention.ops import scores
from keras_attention.ops.precision import wide

Tensor = Any


class Score(keras.layers.Layer):
    """How alike queries and keys are: what every score has in common.

    A score projects queries and keys, each by itself, and compares them. Keys that
    are met many times are projected once. Abstract: `compare` is a subclass's own.

    Call arguments:
        query: (B, T, Dq).
        key: (B, S, Dk).

    Output shape:
        (B, T, S).
    """

    widths_may_differ = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Queries and keys may carry masks; scores (B, T, S) have none to carry on.
        self.supports_masking = True

    def build(self, query_shape: Any, key_shape: Any = None) -> None:
        self.built = True

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None

    def call(self, query: Tensor, key: Tensor) -> Tensor:
        return self.compare(self.project_query(query), self.project_key(key))

    def compute_output_spec(self, query: Tensor, key: Tensor) -> keras.KerasTensor:
        if not self.widths_may_differ:
            scores.check_widths(query, key)
        shape = (*query.shape[:-1], key.shape[-2])
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def project_query(self, query: Tensor) -> Tensor:
        """What a query becomes before it is compared: (B, T, ·)."""
        return query

    def project_key(self, key: Tensor) -> Tensor:
        """What a key becomes before it is compared: (B, S, ·)."""
        return key

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores (B, T, S) of projected queries and keys."""
        raise TypeError(f"{type(self).__name__} has to define `compare`")

    def raise_key(self, key: Tensor) -> Tensor | None:
        """What makes `compare_one` faster than `compare`, of projected keys; or None.

        For keys that many queries meet one by one, as in a decoder.
        """
        return None

    def compare_one(self, query: Tensor, key: Tensor, power: Tensor) -> Tensor:
        """`compare` of one query (B, 1, ·), with what `raise_key` returned."""
        return self.compare(query, key)


@export
class DotScore(Score):
    """qᵀk, or qᵀk / √D.

    Args:
        scaled: whether to divide by √D (Vaswani et al. 2017).

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import DotScore
    >>> x = np.eye(2, dtype="float32")[None]
    >>> np.asarray(DotScore()(x, x))[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, scaled: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scaled = scaled

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return (scores.scaled_dot if self.scaled else scores.dot)(query, key)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scaled": self.scaled}


@export
class CosineScore(Score):
    """qᵀk / (‖q‖ ‖k‖), between −1 and 1.

    Args:
        scale: what multiplies the cosine, since a softmax over numbers between −1
            and 1 is nearly uniform.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import CosineScore
    >>> x = np.array([[[3.0, 4.0]]], "float32")
    >>> round(float(CosineScore()(x, 2 * x)[0, 0, 0]), 6)
    1.0
    """

    def __init__(self, scale: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale = scale

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return ops.multiply(self.scale, scores.cosine(query, key))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}


@export
class RBFScore(Score):
    """−γ ‖q − k‖²: its softmax is the RBF kernel, normalized over the keys.

    Args:
        gamma: one over twice the squared bandwidth, positive.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import RBFScore
    >>> q, k = np.zeros((1, 1, 2), "float32"), np.ones((1, 1, 2), "float32")
    >>> float(RBFScore(gamma=0.5)(q, k)[0, 0, 0])
    -1.0

    Reference:
        Nadaraya, "On estimating regression" (1964); Watson (1964).
    """

    def __init__(self, gamma: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if gamma <= 0:
            raise ValueError(f"`gamma` must be positive. Received: gamma={gamma}")
        self.gamma = gamma

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return scores.rbf(query, key, self.gamma)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "gamma": self.gamma}


@export
class GeneralScore(Score):
    """qᵀ W k, Luong's "general" score; queries and keys may differ in width.

    Args:
        kernel_initializer: of W.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import GeneralScore
    >>> q, k = np.ones((1, 2, 3), "float32"), np.ones((1, 5, 4), "float32")
    >>> tuple(GeneralScore()(q, k).shape)
    (1, 2, 5)

    Reference:
        Luong et al., "Effective approaches to attention-based neural machine
        translation" (2015), section 3.1.
    """

    widths_may_differ = True

    def __init__(self, kernel_initializer: Any = "glorot_uniform", **kwargs: Any):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Any, key_shape: Any = None) -> None:
        key_shape = query_shape if key_shape is None else key_shape
        self.kernel = dense(self, query_shape[-1], "kernel")
        self.kernel.build(key_shape)
        self.built = True

    def project_key(self, key: Tensor) -> Tensor:
        return self.kernel(key)  # (B, S, Dq)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return scores.dot(query, key)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **initializer_config(self)}


@export
class AdditiveScore(Score):
    """vᵀ tanh(W_q q + W_k k + b), Bahdanau's score.

    Args:
        units: U, the width of the hidden layer.
        use_bias: whether there is b.
        normalize: whether v is g·v/‖v‖ instead, with a learned number g that starts
            at √(1/U) (TensorFlow Addons' normed Bahdanau score).
        exact: whether tanh is computed for each pair; see `ops.scores.additive`.
        kernel_initializer: of W_q, W_k and v.

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
        self.scale = _scale(self)
        if self.normalize:
            size = keras.initializers.Constant(self.units**-0.5)
            self.gain = self.add_weight(name="gain", shape=(), initializer=size)
        self.built = True

    def project_query(self, query: Tensor) -> Tensor:
        return self.query_dense(query)  # (B, T, U)

    def project_key(self, key: Tensor) -> Tensor:
        return self.key_dense(key)  # (B, S, U)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return scores.additive(query, key, self._weight(query.dtype), self.exact)

    def raise_key(self, key: Tensor) -> Tensor | None:
        return None if self.exact else scores.powers(key)

    def compare_one(self, query: Tensor, key: Tensor, power: Tensor) -> Tensor:
        return scores.additive_step(query, key, power, self._weight(query.dtype))

    def _weight(self, dtype: Any) -> Tensor:
        """v, or g · v / ‖v‖."""
        scale = self.scale
        if self.normalize:
            full = wide(scale)
            length = ops.sqrt(ops.maximum(ops.sum(full**2), 1e-24))
            scale = wide(self.gain) * full / length
        return ops.cast(scale, dtype)

    def get_config(self) -> dict[str, Any]:
        config = {
            "units": self.units,
            "use_bias": self.use_bias,
            "normalize": self.normalize,
            "exact": self.exact,
        }
        return {**super().get_config(), **config, **initializer_config(self)}


@export
class ConcatScore(Score):
    """vᵀ tanh(W [q; k]), Luong's "concat" score.

    W is one matrix for the pair, as in the paper; multiplied in two halves, it is
    applied to each query and each key once and never to each pair.

    Args:
        units: U, the width of the hidden layer.
        exact: whether tanh is computed for each pair; see `ops.scores.additive`.
        kernel_initializer: of W and v.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import ConcatScore
    >>> q, k = np.ones((1, 2, 3), "float32"), np.ones((1, 5, 4), "float32")
    >>> tuple(ConcatScore(units=7)(q, k).shape)
    (1, 2, 5)

    Reference:
        Luong et al., "Effective approaches to attention-based neural machine
        translation" (2015), section 3.1.
    """

    widths_may_differ = True

    def __init__(
        self,
        units: int,
        exact: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = positive("units", units)
        self.exact = exact
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Any, key_shape: Any = None) -> None:
        key_shape = query_shape if key_shape is None else key_shape
        self.query_width = query_shape[-1]
        self.kernel = self.add_weight(
            name="kernel",
            shape=(query_shape[-1] + key_shape[-1], self.units),
            initializer=self.kernel_initializer,
        )
        self.scale = _scale(self)
        self.built = True

    def project_query(self, query: Tensor) -> Tensor:
        kernel = ops.cast(self.kernel[: self.query_width], query.dtype)
        return ops.matmul(query, kernel)  # (B, T, U)

    def project_key(self, key: Tensor) -> Tensor:
        kernel = ops.cast(self.kernel[self.query_width :], key.dtype)
        return ops.matmul(key, kernel)  # (B, S, U)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        scale = ops.cast(self.scale, query.dtype)
        return scores.additive(query, key, scale, self.exact)

    def raise_key(self, key: Tensor) -> Tensor | None:
        return None if self.exact else scores.powers(key)

    def compare_one(self, query: Tensor, key: Tensor, power: Tensor) -> Tensor:
        scale = ops.cast(self.scale, query.dtype)
        return scores.additive_step(query, key, power, scale)

    def get_config(self) -> dict[str, Any]:
        config = {"units": self.units, "exact": self.exact}
        return {**super().get_config(), **config, **initializer_config(self)}


NAMED: dict[str, tuple[type[Score], dict[str, Any]]] = {
    "dot": (DotScore, {}),
    "scaled_dot": (DotScore, {"scaled": True}),
    "cosine": (CosineScore, {}),
    "rbf": (RBFScore, {}),
    "general": (GeneralScore, {}),
}


def get(identifier: Any, dtype: Any = None) -> Score:
    """Finds a score by name, by its config, or takes it as it is.

    Args:
        identifier: "dot", "scaled_dot", "cosine", "rbf" or "general"; a `Score`; or
            what `keras.saving.serialize_keras_object` made of one.
        dtype: the dtype policy of a score that is made here.

    Raises:
        ValueError: if there is no such score.
    """
    if isinstance(identifier, Score):
        return identifier
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
        return get(identifier)
    if identifier in NAMED:
        cls, arguments = NAMED[identifier]
        return cls(**arguments, dtype=dtype, name="score")
    raise ValueError(
        f"`score` must be one of {sorted(NAMED)} or a score such as "
        f"AdditiveScore(units=…), which is Bahdanau's. Received: score={identifier!r}"
    )


def dense(
    layer: Any, units: int, name: str, bias: bool = False, activation: Any = None
) -> keras.layers.Dense:
    """A projection whose kernel starts as `layer.kernel_initializer` says."""
    return keras.layers.Dense(
        units,
        activation,
        use_bias=bias,
        kernel_initializer=clone_initializer(layer.kernel_initializer),
        dtype=layer.dtype_policy,
        name=name,
    )


def _scale(layer: Any) -> Any:
    """V, a vector of U numbers, drawn as the column of a kernel (U, 1) would be."""
    initializer = clone_initializer(layer.kernel_initializer)
    return layer.add_weight(
        name="scale",
        shape=(layer.units,),
        initializer=lambda shape, dtype: ops.reshape(
            initializer((*shape, 1), dtype=dtype), shape
        ),
    )


def initializer_config(layer: Any) -> dict[str, Any]:
    """What a config holds of `layer.kernel_initializer`."""
    initializer = keras.initializers.serialize(layer.kernel_initializer)
    return {"kernel_initializer": initializer}
