"""Sinusoidal position encoding, to add to token embeddings.

Shapes: B batch, T queries, S keys, H heads, E width of a head, D width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import check_shape, number
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics import masks
from keras_attention.ops import positions

Tensor = Any


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
            scalar tensor, or a tensor (B, 1) with one position per sample.

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
        check_shape("inputs", inputs.shape, "(batch, length, width)", what="rank 3,")
        position = masks.positions(ops.shape(inputs)[1], start)
        waves = positions.sinusoid(position, inputs.shape[-1], self.max_wavelength)
        waves = ops.cast(waves, self.compute_dtype)
        return ops.broadcast_to(waves, ops.shape(inputs))  # (B, T, D)

    def compute_output_spec(self, inputs: Tensor, start: Any = 0) -> Any:
        return keras.KerasTensor(inputs.shape, self.compute_dtype)
