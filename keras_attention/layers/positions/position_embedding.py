"""Learned position embeddings, to add to token embeddings.

Shapes: B batch, T positions, D width.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import check_shape, positive
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics import masks

Tensor = Any


@export
class PositionEmbedding(Configured, keras.layers.Layer):
    """Learns a vector for each position, to add to token embeddings.

    Args:
        max_length: the number of positions.
        embeddings_initializer: the initializer of the vectors.

    Call arguments:
        inputs: (B, T, D); only the shape is used.
        start: the position of the first input, for step-by-step decoding: an integer, a
            scalar tensor, or a tensor (B, 1) with one position per sample.

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
        _check_rank(inputs.shape)
        self._check_length(inputs.shape[1], start)
        shape = ops.shape(inputs)
        position = masks.positions(shape[1], start)
        return ops.broadcast_to(self.embedding(position), shape)  # (B, T, D)

    def compute_output_spec(self, inputs: Tensor, start: Any = 0) -> Any:
        _check_rank(inputs.shape)
        self._check_length(inputs.shape[1], start)
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    def _check_length(self, length: Any, start: Any) -> None:
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
