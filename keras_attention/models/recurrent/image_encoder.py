"""The image encoder of an `ImageCaptioner`: features and positions of locations.

Shapes: B batch, S locations. Rows, columns and channels are written out.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

Tensor = Any
_WAVES = 4  # cosines per axis that encode a position


def image_encoder(
    image_shape: tuple[int, int, int], filters: tuple[int, ...], dtype: Any
) -> keras.Sequential:
    """Returns a small convolutional network; each block halves rows and columns.

    The network has no bias, so features are 0 where the image is 0.

    Args:
        image_shape: the numbers of rows, columns and channels.
        filters: the number of filters of each block.
        dtype: the dtype policy of the layers.
    """
    like = {"padding": "same", "data_format": "channels_last", "dtype": dtype}
    layers = [keras.Input(image_shape)]
    for n, width in enumerate(filters):
        layers += [
            keras.layers.Conv2D(
                width,
                3,
                use_bias=False,
                kernel_initializer="he_normal",
                name=f"convolution_{n}",
                **like,
            ),
            keras.layers.ReLU(dtype=dtype, name=f"relu_{n}"),
            keras.layers.MaxPooling2D(2, name=f"pooling_{n}", **like),
        ]
    return keras.Sequential(layers, name="encoder")


class Places(keras.layers.Layer):
    """Flattens features (B, rows, columns, ·) and appends positions: (B, S, ·).

    The layer also returns the mask of the locations that have a feature other than 0,
    (B, S).
    """

    def call(self, features: Tensor) -> tuple[Tensor, Tensor]:
        # torch's exporter traces shapes as tensors; these three are known.
        rows, columns, width = (int(n) for n in features.shape[1:])
        down = np.broadcast_to(_waves(rows)[:, None], (rows, columns, _WAVES))
        across = np.broadcast_to(_waves(columns)[None], (rows, columns, _WAVES))
        waves = np.concatenate([down, across], axis=-1)  # at each location
        waves = ops.cast(ops.convert_to_tensor(waves), features.dtype)
        waves = ops.zeros_like(features[..., :1]) + waves
        found = ops.concatenate([features, waves], axis=-1)
        is_visible = ops.any(ops.not_equal(features, 0), axis=-1)  # at each location
        return (
            ops.reshape(found, (-1, rows * columns, width + 2 * _WAVES)),
            ops.reshape(is_visible, (-1, rows * columns)),
        )

    def compute_output_spec(self, features: Any) -> tuple[Any, Any]:
        batch, rows, columns, width = features.shape
        shape = (batch, rows * columns)  # (B, S)
        return (
            keras.KerasTensor((*shape, width + 2 * _WAVES), self.compute_dtype),
            keras.KerasTensor(shape, "bool"),
        )


def _waves(count: int) -> np.ndarray:
    """Returns cos(π k (i + ½) / n) for i = 0 … n − 1 and k = 1, 2, …: (n, ·)."""
    place = (np.arange(count) + 0.5) / count
    waves = np.cos(np.pi * place[:, None] * np.arange(1, _WAVES + 1))
    return waves.astype("float32")
