"""Positions as layers: by themselves, or handed to `MultiHeadAttention(position=…)`.

Shapes: B batch, T queries, S keys, H heads, E width of a head, D width.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.arguments import policy_config, policy_of, positive
from keras_attention.layers.export import export
from keras_attention.ops import masks, positions
from keras_attention.ops.precision import wide

Tensor = Any


class Position(keras.layers.Layer):
    """What multi-head attention asks of a position; by default nothing changes.

    A subclass turns queries and keys (`rotate`), adds to the scores (`bias`), or both.
    Abstract.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build_for(self, heads: int, width: int) -> None:
        """Builds what belongs to so many heads, each of this width."""
        if not self.built:
            self.build((None, None, heads, width))

    def hold(self, name: str, built: int, wanted: int) -> None:
        """Refuses to serve an attention of another size than it was built for."""
        if built != wanted:
            raise ValueError(
                f"`position` is shared, and was built for {name}={built}: attention "
                f"of another size needs one of its own. Received: {name}={wanted}, "
                f"position={self.name!r}"
            )

    def rotate(self, x: Tensor, position: Tensor) -> Tensor:
        """Queries or keys (B, T, H, E) at positions (T,) or (B, T), turned."""
        return x

    def bias(self, query_position: Tensor, key_position: Tensor) -> Tensor | None:
        """What is added to the scores of queries at (T,) and keys at (S,): (H, T, S).

        Of positions (B, T) or (B, S), it is (B, H, T, S).
        """
        return None

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dtype": policy_config(self)}


class ScoreBias(Position):
    """A bias (H, T, S) that is added to the scores of each head. Abstract.

    Call arguments:
        scores: (B, H, T, S).

    Output shape:
        (B, H, T, S).
    """

    def build_for(self, heads: int, width: int) -> None:
        if not self.built:
            self.build((None, heads, None, None))
        self.hold("num_heads", self.heads, heads)

    def build(self, scores_shape: Any) -> None:
        if len(scores_shape) != 4:
            raise ValueError(
                "`scores` must have rank 4, (batch, heads, queries, keys). "
                f"Received: scores.shape={tuple(scores_shape)}"
            )
        self.heads = scores_shape[1]
        self.build_heads()
        self.built = True

    def build_heads(self) -> None:
        """Makes the weights of `self.heads` heads."""

    def call(self, scores: Tensor) -> Tensor:
        queries, keys = ops.shape(scores)[-2:]
        bias = self.bias(masks.places(queries), masks.places(keys))
        return ops.cast(wide(scores) + wide(bias), self.compute_dtype)

    def compute_output_spec(self, scores: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(scores.shape, self.compute_dtype)


@export
class SinePositionEncoding(keras.layers.Layer):
    """Sine and cosine waves of each position, to be added to an embedding.

        PE(p, 2i) = sin(p / m^(2i/D)),   PE(p, 2i + 1) = cos(p / m^(2i/D))

    The waves are computed in float32 and rounded once, so that in bfloat16, too, they
    are as exact as the dtype allows at every position.

    Args:
        max_wavelength: m.

    Call arguments:
        inputs: (B, T, D), of which the shape alone counts.
        start: the position of the first one, as when decoding step by step: an integer,
            a scalar tensor, or (B, 1), one for each row.

    Returns:
        (B, T, D) in the compute dtype: the waves of the positions from `start` on.

    Raises:
        ValueError: if `max_wavelength` is not above 1, or the inputs are not of rank 3.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import SinePositionEncoding
    >>> words = np.zeros((2, 5, 4), "float32")
    >>> encoding = SinePositionEncoding()(words)
    >>> np.asarray(encoding)[0, 0].tolist()
    [0.0, 1.0, 0.0, 1.0]

    Reference:
        Vaswani et al., "Attention is all you need" (2017), section 3.5.
    """

    def __init__(self, max_wavelength: float = 1e4, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.max_wavelength = _above_one("max_wavelength", max_wavelength)

    def build(self, inputs_shape: Any) -> None:
        self.built = True

    def call(self, inputs: Tensor, start: Any = 0) -> Tensor:
        if len(inputs.shape) != 3:
            raise ValueError(
                "`inputs` must have rank 3, (batch, length, width). "
                f"Received: inputs.shape={tuple(inputs.shape)}"
            )
        position = masks.places(ops.shape(inputs)[1], start)
        waves = positions.sinusoid(position, inputs.shape[-1], self.max_wavelength)
        waves = ops.cast(waves, self.compute_dtype)
        return ops.broadcast_to(waves, ops.shape(inputs))  # (B, T, D)

    def compute_output_spec(self, inputs: Tensor, start: Any = 0) -> Any:
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_wavelength": self.max_wavelength}


@export
class RotaryEmbedding(Position):
    """Turns pairs of each query and key, so that scores see how far apart they are.

    Args:
        max_wavelength: m; pair i turns by m^(−2i/E) a step.
        scaling: "linear", which divides every rate by `factor`, or "yarn", which spares
            the fast ones and raises the scores a little.
        factor: how many times further positions are to reach than in training.
        original_length: the length in training, for "yarn".
        fast: pairs that turn more often within it keep their rate, for "yarn".
        slow: pairs that turn less often have theirs divided by `factor`, for "yarn".
        interleaved: whether pairs are neighbours, as in the paper, or number i goes
            with number i + E/2, as in most published weights.

    Call arguments:
        inputs: queries or keys (B, T, H, E), or (B, T, E).
        start: the position of the first one, as when decoding step by step.

    Returns:
        Of the shape of the inputs, in the compute dtype; the angles are computed in
        float32.

    Raises:
        ValueError: for an odd width, an unknown scaling, or numbers out of range.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import RotaryEmbedding
    >>> x = np.ones((1, 3, 2, 4), "float32")
    >>> y = np.asarray(RotaryEmbedding()(x))
    >>> bool((y[:, 0] == 1).all()), y.shape
    (True, (1, 3, 2, 4))

    Reference:
        Su et al., "RoFormer" (2021); Chen et al., "Extending context window of large
        language models via positional interpolation" (2023); Peng et al., "YaRN"
        (2023).
    """

    def __init__(
        self,
        max_wavelength: float = 1e4,
        scaling: str = "linear",
        factor: float = 1.0,
        original_length: int = 4096,
        fast: float = 32.0,
        slow: float = 1.0,
        interleaved: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if scaling not in ("linear", "yarn"):
            raise ValueError(
                f'`scaling` must be "linear" or "yarn". Received: scaling={scaling!r}'
            )
        if factor < 1:
            raise ValueError(f"`factor` must be at least 1. Received: factor={factor}")
        if not 0 < slow < fast:
            raise ValueError(
                "`slow` must be positive and less than `fast`. "
                f"Received: slow={slow}, fast={fast}"
            )
        self.max_wavelength = _above_one("max_wavelength", max_wavelength)
        self.scaling = scaling
        self.factor = factor
        self.original_length = positive("original_length", original_length)
        self.fast = fast
        self.slow = slow
        self.interleaved = interleaved

    def build_for(self, heads: int, width: int) -> None:
        super().build_for(heads, width)
        self.hold("key_dim", 2 * len(self._rates), width)

    def build(self, inputs_shape: Any) -> None:
        self._rates = self._rates_of(inputs_shape[-1])
        self.built = True

    def call(self, inputs: Tensor, start: Any = 0) -> Tensor:
        if len(inputs.shape) not in (3, 4):
            raise ValueError(
                "`inputs` must have shape (batch, length, heads, width) or (batch, "
                f"length, width). Received: inputs.shape={tuple(inputs.shape)}"
            )
        position = masks.places(ops.shape(inputs)[1], start)
        if len(inputs.shape) == 4:
            return self.rotate(inputs, position)
        return ops.squeeze(self.rotate(ops.expand_dims(inputs, 2), position), axis=2)

    def compute_output_spec(self, inputs: Tensor, start: Any = 0) -> Any:
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    def rotate(self, x: Tensor, position: Tensor) -> Tensor:
        yarn = self.scaling == "yarn"
        amplitude = 0.1 * np.log(self.factor) + 1 if yarn else 1.0
        turned = positions.rotate(
            x, position, self._rates, float(amplitude), self.interleaved
        )
        return ops.cast(turned, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_wavelength": self.max_wavelength,
            "scaling": self.scaling,
            "factor": self.factor,
            "original_length": self.original_length,
            "fast": self.fast,
            "slow": self.slow,
            "interleaved": self.interleaved,
        }

    def _rates_of(self, width: int) -> np.ndarray:
        if self.scaling == "linear":
            return positions.rotary_rates(width, self.max_wavelength, self.factor)
        return positions.yarn_rates(
            width,
            self.max_wavelength,
            self.factor,
            self.original_length,
            self.fast,
            self.slow,
        )


@export
class AlibiBias(ScoreBias):
    """Attention with linear biases: −m |t − s| is added to the scores.

    Each head has its slope m, which is not trained. Under a causal mask it is the bias
    of the paper; without one, keys ahead count as keys behind.

    Call arguments:
        scores: (B, H, T, S).

    Output shape:
        (B, H, T, S).

    Raises:
        ValueError: if the scores are not of rank 4.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import AlibiBias
    >>> scores = np.zeros((1, 8, 3, 3), "float32")
    >>> np.asarray(AlibiBias()(scores))[0, 0, 2].tolist()
    [-1.0, -0.5, 0.0]

    Reference:
        Press et al., "Train short, test long" (2022).
    """

    def bias(self, query_position: Tensor, key_position: Tensor) -> Tensor:
        slopes = ops.convert_to_tensor(positions.alibi_slopes(self.heads), "float32")
        distance = ops.abs(_distance(query_position, key_position))
        distance = ops.expand_dims(ops.cast(distance, "float32"), -3)
        return -ops.expand_dims(slopes, (1, 2)) * distance  # (H, T, S)


@export
class RelativePositionBias(ScoreBias):
    """T5's bias: a trained number for each head and each bucket of distances.

    Args:
        buckets: how many there are; half of them for either direction if both count.
        max_distance: from here on, all distances share the last bucket.
        bidirectional: whether keys ahead are told from keys behind.
        embeddings_initializer: of the numbers.

    Call arguments:
        scores: (B, H, T, S).

    Output shape:
        (B, H, T, S).

    Raises:
        ValueError: if there are too few buckets for `max_distance`, or the scores are
            not of rank 4.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import RelativePositionBias
    >>> scores = np.zeros((1, 2, 3, 5), "float32")
    >>> tuple(RelativePositionBias(buckets=8)(scores).shape)
    (1, 2, 3, 5)

    Reference:
        Raffel et al., "Exploring the limits of transfer learning with a unified
        text-to-text transformer" (2020), section 2.1.
    """

    def __init__(
        self,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        embeddings_initializer: Any = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.buckets = positive("buckets", buckets)
        self.max_distance = positive("max_distance", max_distance)
        self.bidirectional = bidirectional
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        positions.bucket_table(buckets, max_distance, bidirectional)  # checks them

    def build_heads(self) -> None:
        self.embedding = keras.layers.Embedding(
            self.buckets,
            self.heads,
            embeddings_initializer=self.embeddings_initializer,
            dtype=policy_of(self, "embedding"),
            name="embedding",
        )
        self.embedding.build()

    def bias(self, query_position: Tensor, key_position: Tensor) -> Tensor:
        bucket = positions.relative_buckets(
            _distance(query_position, key_position),
            self.buckets,
            self.max_distance,
            self.bidirectional,
        )
        return ops.moveaxis(self.embedding(bucket), -1, -3)  # (H, T, S)

    def get_config(self) -> dict[str, Any]:
        initializer = keras.initializers.serialize(self.embeddings_initializer)
        return {
            **super().get_config(),
            "buckets": self.buckets,
            "max_distance": self.max_distance,
            "bidirectional": self.bidirectional,
            "embeddings_initializer": initializer,
        }


NAMES: dict[str, type[Position]] = {
    "rotary": RotaryEmbedding,
    "alibi": AlibiBias,
    "relative": RelativePositionBias,
}


def get(identifier: Any, dtype: Any = None) -> Position | None:
    """A position from its name, its config or itself; None is none.

    Args:
        identifier: "rotary", "alibi", "relative", a config, or a `Position`.
        dtype: of a layer that is made from a name.

    Raises:
        ValueError: if there is none of that name, or it is no `Position`.
    """
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if identifier is None or isinstance(identifier, Position):
        return identifier
    if isinstance(identifier, str) and identifier in NAMES:
        return NAMES[identifier](dtype=dtype, name=identifier)
    raise ValueError(
        f"`position` must be one of {sorted(NAMES)} or a layer RotaryEmbedding, "
        "AlibiBias or RelativePositionBias (sine waves and learned embeddings are "
        f"added to the inputs instead). Received: position={identifier!r}"
    )


def _distance(query_position: Tensor, key_position: Tensor) -> Tensor:
    """Where the key is, less where the query is: (T, S)."""
    return ops.expand_dims(key_position, -2) - ops.expand_dims(query_position, -1)


def _above_one(name: str, value: float) -> float:
    if value <= 1:
        raise ValueError(f"`{name}` must be above 1. Received: {name}={value}")
    return value
