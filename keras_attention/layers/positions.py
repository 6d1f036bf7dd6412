"""Position layers, for use on their own or inside `MultiHeadAttention`.

Shapes: B batch, T queries or positions, S keys, H heads, E width of a head, D width.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import (
    check_shape,
    number,
    policy_of,
    positive,
)
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics import masks
from keras_attention.numerics.precision import to_float32
from keras_attention.ops import positions

__all__ = [
    "AlibiBias",
    "PositionEmbedding",
    "RelativePositionBias",
    "RotaryEmbedding",
    "SinePositionEncoding",
]

Tensor = Any


class Position(Configured, keras.layers.Layer):
    """Abstract base class of the positions in multi-head attention.

    A subclass rotates queries and keys (`rotate`), adds a bias to the scores (`bias`),
    or both. The defaults change nothing.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build_for(self, heads: int, width: int) -> None:
        """Builds the layer for `heads` heads of width `width`."""
        if not self.built:
            self.build((None, None, heads, width))

    def check_same_size(self, name: str, built: int, wanted: int) -> None:
        """Raises a ValueError if the size `built` is not the size `wanted`."""
        if built != wanted:
            raise ValueError(
                f"`position` is shared, and was built for {name}={built}: give "
                f"attention of another size another one. Received: {name}={wanted}, "
                f"position={self.name!r}"
            )

    def rotate(self, x: Tensor, position: Tensor) -> Tensor:
        """Rotates queries or keys (B, T, H, E) at positions (T,) or (B, T)."""
        return x

    def bias(self, query_position: Tensor, key_position: Tensor) -> Tensor | None:
        """Returns the bias (H, T, S) for query positions (T,) and key positions (S,).

        With positions (B, T) or (B, S), the bias is (B, H, T, S).
        """
        return None


class ScoreBias(Position):
    """Abstract base class of positions that add a bias (H, T, S) to the scores.

    Call arguments:
        scores: (B, H, T, S).

    Output shape:
        (B, H, T, S).
    """

    input_ranks: ClassVar[Any] = {"scores": 4}

    def build_for(self, heads: int, width: int) -> None:
        if not self.built:
            self.build((None, heads, None, None))
        self.check_same_size("num_heads", self.heads, heads)

    def build(self, scores_shape: Any) -> None:
        form = "(batch, heads, queries, keys)"
        check_shape("scores", scores_shape, form, what="rank 4,")
        self.heads = scores_shape[1]
        self.build_heads()
        self.built = True

    def build_heads(self) -> None:
        """Creates the weights of `self.heads` heads."""

    def call(self, scores: Tensor) -> Tensor:
        if scores.shape[1] != self.heads:
            raise ValueError(
                f"`scores` must have {self.heads} heads (axis 1), for which layer "
                f"{self.name!r} was built. Received: scores.shape={tuple(scores.shape)}"
            )
        queries, keys = ops.shape(scores)[-2:]
        bias = self.bias(masks.positions(queries), masks.positions(keys))
        scores = to_float32(scores)
        return ops.cast(scores + ops.cast(bias, scores.dtype), self.compute_dtype)

    def compute_output_spec(self, scores: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(scores.shape, self.compute_dtype)


def _distance(query_position: Tensor, key_position: Tensor) -> Tensor:
    """Returns the key positions minus the query positions, (T, S)."""
    return ops.expand_dims(key_position, -2) - ops.expand_dims(query_position, -1)


@export
class RotaryEmbedding(Position):
    """Rotary position embedding (RoPE): rotates queries and keys by their positions.

    The scores then depend only on the distance from query to key.

    Args:
        max_wavelength: m; pair i rotates by the angle m^(−2i/E) per position.
        scaling: "linear" divides every rate by `factor`. "yarn" keeps the fast rates
            and slightly increases the scores.
        factor: the ratio of the target length to the training length.
        original_length: the training length, for "yarn".
        fast: for "yarn"; pairs that make more than `fast` rotations within
            `original_length` keep their rates.
        slow: for "yarn"; the rates of pairs that make fewer than `slow` rotations are
            divided by `factor`.
        interleaved: True pairs neighbouring entries, as in the paper. False pairs entry
            i with entry i + E/2, as in most published weights.

    Call arguments:
        inputs: queries or keys (B, T, H, E), or (B, T, E).
        start: the position of the first input, for step-by-step decoding.

    Returns:
        A tensor with the shape of the inputs, in the compute dtype. The angles are
        computed in float32.

    Raises:
        ValueError: for an odd width, an unknown scaling, or arguments out of range.

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

    float_inputs = ("inputs",)

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
        if not 0 < number("slow", slow) < number("fast", fast):
            raise ValueError(
                "`slow` must be positive and less than `fast`. "
                f"Received: slow={slow}, fast={fast}"
            )
        self.max_wavelength = number("max_wavelength", max_wavelength, above=1)
        self.scaling = scaling
        self.factor = number("factor", factor, least=1)
        self.original_length = positive("original_length", original_length)
        self.fast = fast
        self.slow = slow
        self.interleaved = interleaved

    def build_for(self, heads: int, width: int) -> None:
        super().build_for(heads, width)
        self.check_same_size("key_dim", 2 * len(self._rates), width)

    def build(self, inputs_shape: Any) -> None:
        self._rates = self._rates_of(inputs_shape[-1])
        self.built = True

    def call(self, inputs: Tensor, start: Any = 0) -> Tensor:
        forms = "(batch, length, heads, width)", "(batch, length, width)"
        check_shape("inputs", inputs.shape, *forms)
        if inputs.shape[-1] != 2 * len(self._rates):
            raise ValueError(
                f"`inputs` must have width {2 * len(self._rates)} (last axis), for "
                f"which layer {self.name!r} was built. "
                f"Received: inputs.shape={tuple(inputs.shape)}"
            )
        position = masks.positions(ops.shape(inputs)[1], start)
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
    """Attention with linear biases: adds −m |t − s| to the scores.

    Each head has a fixed slope m. With a causal mask, this is the bias of the paper.
    Without a causal mask, future keys get the same bias as past keys at the same
    distance.

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
    """T5's bias: a learned number for each head and each bucket of distances.

    Args:
        buckets: the number of buckets; each direction gets half of them if
            `bidirectional` is True.
        max_distance: all distances of at least this number share the last bucket.
        bidirectional: whether future and past keys have different buckets.
        embeddings_initializer: the initializer of the numbers.

    Call arguments:
        scores: (B, H, T, S).

    Output shape:
        (B, H, T, S).

    Raises:
        ValueError: if `buckets` is too small for `max_distance`, or the scores are not
            of rank 4.

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
        positions.bucket_table(buckets, max_distance, bidirectional)  # checks the sizes

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
        bias = self.embedding(bucket)  # (T, S, H)
        last = len(bias.shape) - 1  # torch's ONNX export accepts no negative source
        return ops.moveaxis(bias, last, last - 2)  # (H, T, S)


@export
class SinePositionEncoding(Configured, keras.layers.Layer):
    """Computes sine and cosine waves of each position, to add to token embeddings.

        PE(p, 2i) = sin(p / m^(2i/D)),   PE(p, 2i + 1) = cos(p / m^(2i/D))

    The waves are computed in float32 and rounded once. They are therefore exact up to
    rounding at every position, also in bfloat16.

    Args:
        max_wavelength: m.

    Call arguments:
        inputs: (B, T, D); only the shape is used.
        start: the position of the first input, for step-by-step decoding: an integer, a
            scalar tensor, or a tensor (B, 1) with one position per sample. With (B, T),
            the position of input t is start[:, t] + t.

    Returns:
        The waves of the positions from `start` on, (B, T, D), in the compute dtype.

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

    float_inputs = ("inputs",)

    def __init__(self, max_wavelength: float = 1e4, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.max_wavelength = number("max_wavelength", max_wavelength, above=1)

    def build(self, inputs_shape: Any) -> None:
        self.built = True

    def call(self, inputs: Tensor, start: Any = 0) -> Tensor:
        _check_rank(inputs.shape)
        position = masks.positions(ops.shape(inputs)[1], start)
        waves = positions.sinusoid(position, inputs.shape[-1], self.max_wavelength)
        waves = ops.cast(waves, self.compute_dtype)
        return ops.broadcast_to(waves, ops.shape(inputs))  # (B, T, D)

    def compute_output_spec(self, inputs: Tensor, start: Any = 0) -> Any:
        return keras.KerasTensor(inputs.shape, self.compute_dtype)


@export
class PositionEmbedding(Configured, keras.layers.Layer):
    """Learns a vector for each position, to add to token embeddings.

    Args:
        max_length: the number of positions.
        embeddings_initializer: the initializer of the vectors.

    Call arguments:
        inputs: (B, T, D); only the shape is used.
        start: the position of the first input, for step-by-step decoding: an integer, a
            scalar tensor, or a tensor (B, 1) with one position per sample. With (B, T),
            the position of input t is start[:, t] + t.

    Returns:
        The vectors of the positions from `start` on, (B, T, D), in the compute dtype.

    Raises:
        ValueError: if `max_length` is below 1, the inputs are not of rank 3, or a
            position is not below `max_length`. If the length or the start is only known
            when a compiled graph runs, the layer cannot check the positions.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import PositionEmbedding
    >>> words = np.zeros((2, 5, 4), "float32")
    >>> layer = PositionEmbedding(max_length=7)
    >>> tuple(layer(words).shape), tuple(layer.embedding.embeddings.shape)
    ((2, 5, 4), (7, 4))

    Reference:
        Gehring et al., "Convolutional sequence to sequence learning" (2017), section
        3.1; Vaswani et al., "Attention is all you need" (2017), table 3, row E; Devlin
        et al., "BERT" (2019).
    """

    float_inputs = ("inputs",)

    def __init__(
        self, max_length: int, embeddings_initializer: Any = "uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.max_length = positive("max_length", max_length)
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, inputs_shape: Any) -> None:
        _check_rank(inputs_shape)
        self.embedding = keras.layers.Embedding(
            self.max_length,
            inputs_shape[-1],
            embeddings_initializer=self.embeddings_initializer,
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.embedding.build()
        self.built = True

    def call(self, inputs: Tensor, start: Any = 0) -> Tensor:
        self._check(inputs, start)
        shape = ops.shape(inputs)
        position = masks.positions(shape[1], start)
        return ops.broadcast_to(self.embedding(position), shape)  # (B, T, D)

    def compute_output_spec(self, inputs: Tensor, start: Any = 0) -> Any:
        self._check(inputs, start)
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    def _check(self, inputs: Tensor, start: Any) -> None:
        _check_rank(inputs.shape)
        length = inputs.shape[1]
        if not (isinstance(length, Integral) and isinstance(start, Integral)):
            return  # only known when a compiled graph runs
        if int(start) < 0:
            raise ValueError(f"`start` must be at least 0. Received: start={start}")
        if int(start) + int(length) > self.max_length:
            behind = f", from start={start} on" if int(start) else ""
            raise ValueError(
                f"`inputs` must end within `max_length`, the positions that are "
                f"learned. Received: {length} positions{behind}, "
                f"max_length={self.max_length}"
            )


def _check_rank(shape: Any) -> None:
    check_shape("inputs", shape, "(batch, length, width)", what="rank 3,")


NAMES: dict[str, type[Position]] = {
    "rotary": RotaryEmbedding,
    "alibi": AlibiBias,
    "relative": RelativePositionBias,
}


def get(identifier: Any, dtype: Any = None) -> Position | None:
    """Returns the position for a name, a config, a `Position` or None."""
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
