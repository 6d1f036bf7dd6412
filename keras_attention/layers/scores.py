"""Score layers: the similarity of queries and keys.

Shapes: B batch, T queries, S keys, Dq and Dk widths, U units.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import clone_initializer, number, positive
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics.precision import HALF, to_float32
from keras_attention.ops import scores

__all__ = [
    "AdditiveScore",
    "ConcatScore",
    "CosineScore",
    "DotScore",
    "GeneralScore",
    "LocationScore",
    "RBFScore",
    "Score",
]

Tensor = Any


class Score(Configured, keras.layers.Layer, abc.ABC):
    """Abstract base class of scores, which measure the similarity of queries and keys.

    A score projects the queries and the keys separately and then compares them. Keys
    that are used many times are projected once. A subclass defines `compare`.

    Call arguments:
        query: (B, T, Dq).
        key: (B, S, Dk).

    Output shape:
        (B, T, S).
    """

    widths_may_differ = False
    uses_positions = False  # whether it depends on the positions of keys

    float_inputs = ("query", "key")
    input_ranks: ClassVar[Any] = {"query": 3, "key": 3}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Queries and keys may carry masks; the scores (B, T, S) do not.
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
        """Returns the projected queries, (B, T, ·)."""
        return query

    def project_key(self, key: Tensor) -> Tensor:
        """Returns the projected keys, (B, S, ·)."""
        return key

    def precompute_key(self, key: Tensor) -> Any:
        """Prepares projected keys (B, S, ·) for many calls of `compare` with one query.

        The result is a structure of tensors (B, S, ...).
        """
        return key

    @abc.abstractmethod
    def compare(self, query: Tensor, key: Any) -> Tensor:
        """Returns the scores (B, T, S) of projected queries and keys.

        Args:
            query: the result of `project_query`, (B, T, ·).
            key: the result of `project_key` or `precompute_key`.
        """


def dense(
    layer: Any, units: int, name: str, bias: bool = False, activation: Any = None
) -> keras.layers.Dense:
    """Returns a Dense layer with the kernel initializer of `layer`."""
    return keras.layers.Dense(
        units,
        activation,
        use_bias=bias,
        kernel_initializer=clone_initializer(layer.kernel_initializer),
        dtype=layer.dtype_policy,
        name=name,
    )


def scale_vector(layer: Any) -> Any:
    """Creates v, a vector of width U, initialized like a kernel (U, 1)."""
    initializer = clone_initializer(layer.kernel_initializer)
    return layer.add_weight(
        name="scale",
        shape=(layer.units,),
        initializer=lambda shape, dtype: ops.reshape(
            initializer((*shape, 1), dtype=dtype), shape
        ),
    )


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


@export
class CosineScore(Score):
    """qᵀk / (‖q‖ ‖k‖), between −1 and 1.

    Args:
        scale: the factor of the cosine. Without a factor, the scores lie between −1
            and 1, and their softmax is nearly uniform.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import CosineScore
    >>> x = np.array([[[3.0, 4.0]]], "float32")
    >>> round(float(CosineScore()(x, 2 * x)[0, 0, 0]), 6)
    1.0
    """

    def __init__(self, scale: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale = number("scale", scale)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return ops.multiply(self.scale, scores.cosine(query, key))


@export
class RBFScore(Score):
    """−γ ‖q − k‖²: its softmax is the RBF kernel, normalized over the keys.

    Args:
        gamma: γ = 1 / (2 · bandwidth²), positive.

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
        if number("gamma", gamma) <= 0:
            raise ValueError(f"`gamma` must be positive. Received: gamma={gamma}")
        self.gamma = gamma

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return scores.rbf(query, key, self.gamma)


@export
class GeneralScore(Score):
    """qᵀ W k, Luong's "general" score; queries and keys may differ in width.

    Args:
        kernel_initializer: the initializer of W.

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
        self.kernel = dense(self, query_shape[-1], "kernel")
        self.kernel.build(key_shape or query_shape)
        self.built = True

    def project_key(self, key: Tensor) -> Tensor:
        return self.kernel(key)  # (B, S, Dq)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return scores.dot(query, key)


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
        self.query_dense = dense(self, self.units, "query")
        self.query_dense.build(query_shape)
        self.key_dense = dense(self, self.units, "key", self.use_bias)
        self.key_dense.build(key_shape or query_shape)
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


@export
class ConcatScore(Score):
    """vᵀ tanh(W [q; k]), Luong's "concat" score.

    W is one matrix for the pair [q; k], as in the paper. The layer does not apply W to
    each pair: it applies one part of W to each query and the other part to each key.

    Args:
        units: U, the width of the hidden layer.
        exact: whether to compute tanh for each pair; see `ops.scores.additive`.
        kernel_initializer: the initializer of W and v.

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
        self.query_width = query_shape[-1]
        key_width = (key_shape or query_shape)[-1]
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.query_width + key_width, self.units),
            initializer=self.kernel_initializer,
        )
        self.scale = scale_vector(self)
        self.built = True

    def project_query(self, query: Tensor) -> Tensor:
        kernel = ops.cast(self.kernel[: self.query_width], query.dtype)
        return ops.matmul(query, kernel)  # (B, T, U)

    def project_key(self, key: Tensor) -> Tensor:
        kernel = ops.cast(self.kernel[self.query_width :], key.dtype)
        return ops.matmul(key, kernel)  # (B, S, U)

    def precompute_key(self, key: Tensor) -> Any:
        return key if self.exact else scores.precompute_key(key)

    def compare(self, query: Tensor, key: Any) -> Tensor:
        scale = ops.cast(self.scale, query.dtype)
        return scores.additive(query, key, scale, self.exact)


@export
class LocationScore(Score):
    """W q: a score for each position, independent of the keys.

    W has one row for each of `max_length` positions. S keys use the first S rows.

    Args:
        max_length: the largest number of keys.
        kernel_initializer: the initializer of W.

    Call arguments:
        query: (B, T, Dq).
        key: (B, S, Dk); only its length S is used.

    Raises:
        ValueError: if there are more keys than `max_length`.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import LocationScore
    >>> q, k = np.ones((1, 2, 3), "float32"), np.ones((1, 5, 4), "float32")
    >>> tuple(LocationScore(max_length=7)(q, k).shape)
    (1, 2, 5)

    Reference:
        Luong et al., "Effective approaches to attention-based neural machine
        translation" (2015), equation 8.
    """

    widths_may_differ = uses_positions = True

    def __init__(
        self, max_length: int, kernel_initializer: Any = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.max_length = positive("max_length", max_length)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Any, key_shape: Any = None) -> None:
        self.kernel = dense(self, self.max_length, "kernel")
        self.kernel.build(query_shape)
        self.built = True

    def compute_output_spec(self, query: Tensor, key: Tensor) -> keras.KerasTensor:
        self._check_length(key)
        return super().compute_output_spec(query, key)

    def project_query(self, query: Tensor) -> Tensor:
        return self.kernel(query)  # one score per position

    def project_key(self, key: Tensor) -> Tensor:
        self._check_length(key)
        return key

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        return query[..., : ops.shape(key)[-2]]  # (B, T, S)

    def _check_length(self, key: Tensor) -> None:
        length = key.shape[-2]
        if length is not None and length > self.max_length:
            raise ValueError(
                "`max_length` must be at least the number of keys. Received: "
                f"max_length={self.max_length}, key.shape={tuple(key.shape)}"
            )


NAMED: dict[str, tuple[type[Score], dict[str, Any]]] = {
    "dot": (DotScore, {}),
    "scaled_dot": (DotScore, {"scaled": True}),
    "cosine": (CosineScore, {}),
    "rbf": (RBFScore, {}),
    "general": (GeneralScore, {}),
}
SIZED = {  # what to write for a score that has no name, because it needs a size
    "additive": "AdditiveScore(units=…)",
    "bahdanau": "AdditiveScore(units=…)",
    "concat": "ConcatScore(units=…)",
    "location": "LocationScore(max_length=…)",
}


def get(identifier: Any, dtype: Any = None) -> Score:
    """Returns the score for a name, a config or a `Score`, or raises a ValueError."""
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if isinstance(identifier, Score):
        return identifier
    if isinstance(identifier, str) and identifier in NAMED:
        cls, arguments = NAMED[identifier]
        return cls(**arguments, dtype=dtype, name="score")
    check_needs_no_size(identifier)
    raise ValueError(
        f"`score` must be one of {sorted(NAMED)} or a score such as "
        f"AdditiveScore(units=…), which is Bahdanau's. Received: score={identifier!r}"
    )


def check_needs_no_size(name: Any) -> None:
    """Raises a ValueError with a hint for a score that needs a size, by its name."""
    if isinstance(name, str) and name in SIZED:
        raise ValueError(
            f"The score {name!r} needs a size: pass score={SIZED[name]} instead. "
            f"Received: score={name!r}"
        )
