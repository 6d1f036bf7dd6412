"""The image encoder of an `ImageCaptioner`: features and positions of locations.

Shapes: B batch, S locations, D width of a feature. Rows, columns and channels are
written out.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import positive

Tensor = Any
FILTERS = (32, 64, 128)
_WAVES = 4  # cosines per axis that encode a position


def image_encoder(
    image_shape: tuple[int | None, ...], filters: tuple[int, ...], dtype: Any
) -> keras.Sequential:
    """Returns a small convolutional network; each block halves rows and columns.

    The network has no bias, so features are 0 where the image is 0.
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


def check_image_shape(image_shape: Any, encoder: Any) -> tuple[int | None, ...]:
    """Returns the shape of an input as a tuple, if it fits the encoder."""
    is_layer = isinstance(encoder, keras.layers.Layer)
    if not (encoder is None or encoder == "cnn" or is_layer):
        raise ValueError(
            '`encoder` must be "cnn", a Keras layer or model, or None for features. '
            f"Received: encoder={encoder!r}"
        )
    received = f"Received: image_shape={image_shape!r}"
    sizes = tuple(image_shape) if isinstance(image_shape, (list, tuple)) else ()
    if encoder == "cnn" and len(sizes) != 3:
        raise ValueError(
            f"`image_shape` must be rows, columns and channels. {received}"
        )
    if encoder is None and len(sizes) not in (2, 3):
        raise ValueError(
            "Without an encoder, `image_shape` must be that of features: (locations, "
            f"width) or (rows, columns, width). {received}"
        )
    if not sizes:
        raise ValueError(f"`image_shape` must be a tuple of sizes. {received}")
    _check_inputs(encoder, sizes)
    open_axes = len(sizes) if is_layer else int(encoder is None and len(sizes) == 2)
    if None in sizes[open_axes:]:
        rule = 'must not have None with encoder="cnn"'
        if encoder is None:
            rule = "may have None only as the number of locations of (locations, width)"
        raise ValueError(f"`image_shape` {rule}. {received}")
    return tuple(
        size if size is None and n < open_axes else positive("image_shape", size)
        for n, size in enumerate(sizes)
    )


def _check_inputs(encoder: Any, sizes: tuple) -> None:
    """Raises a ValueError if a model does not read one input of this shape."""
    inputs = getattr(encoder, "inputs", None)  # None for a layer
    if not inputs:
        return
    shapes = [tuple(x.shape[1:]) for x in inputs]
    if len(shapes) > 1 or len(shapes[0]) != len(sizes):
        is_one = False
    else:
        is_one = all(None in pair or len({*pair}) == 1 for pair in zip(*shapes, sizes))
    if not is_one:
        raise ValueError(
            "`image_shape` must be the shape of the one input of `encoder`. Received: "
            f"image_shape={sizes}, encoder={encoder!r} with inputs of the shapes "
            f"{shapes}"
        )


def fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    """Returns whether a batch that is not empty has the wanted shape of a sample."""
    sizes = zip(shape[1:], wanted)
    return (
        len(shape) == 1 + len(wanted)
        and 0 not in shape
        and all(size in (None, known) for known, size in sizes)
    )


def check_filters(values: Any, encoder: Any) -> tuple[int, ...]:
    """Returns the numbers of filters as a tuple, if there are any that are used."""
    filters = tuple(positive("filters", width) for width in values)
    if not filters:
        raise ValueError("`filters` must hold at least one number. Received: ()")
    if encoder != "cnn" and filters != FILTERS:
        raise ValueError(
            '`filters` is for encoder="cnn"; another encoder has its own. '
            f"Received: filters={filters}, encoder={encoder!r}"
        )
    return filters


def check_features(features: Any, encoder: Any) -> None:
    """Raises a ValueError if the symbolic output of an encoder is no feature map."""
    shape = tuple(getattr(features, "shape", ()))
    known = {3: shape[2:], 4: shape[1:]}.get(len(shape), (None,))
    if None in known:
        shown = "outputs of the shape " if shape else "outputs of the shapes "
        shapes = keras.tree.map_structure(lambda x: tuple(x.shape), features)
        raise ValueError(
            "`encoder` must return one tensor: features of shape (batch, rows, "
            "columns, width) or (batch, locations, width), where only the batch and "
            "the number of locations may be None. A model of keras.applications does "
            f"so with include_top=False. Received: encoder={encoder!r} with {shown}"
            f"{shapes}"
        )


class Places(keras.layers.Layer):
    """Flattens features to (B, S, ·), and appends positions to those of a grid.

    The layer also returns the mask (B, S) of the locations that have a feature other
    than 0, and that the mask of the features, if any, does not hide.

    Call arguments:
        features: (B, rows, columns, D), or (B, S, D), to which no positions are
            appended.
        mask: booleans in the shape of the features without their last axis, or None.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(
        self, features: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        is_visible = ops.any(ops.not_equal(features, 0), axis=-1)  # at each location
        if mask is not None:
            is_visible = ops.logical_and(is_visible, ops.cast(mask, "bool"))
        if len(features.shape) == 3:
            return features, is_visible
        # torch's exporter traces shapes as tensors; these three are known.
        rows, columns, width = (int(n) for n in features.shape[1:])
        down = np.broadcast_to(_waves(rows)[:, None], (rows, columns, _WAVES))
        across = np.broadcast_to(_waves(columns)[None], (rows, columns, _WAVES))
        waves = np.concatenate([down, across], axis=-1)  # at each location
        waves = ops.cast(ops.convert_to_tensor(waves), features.dtype)
        waves = ops.zeros_like(features[..., :1]) + waves
        outputs = ops.concatenate([features, waves], axis=-1)
        return (
            ops.reshape(outputs, (-1, rows * columns, width + 2 * _WAVES)),
            ops.reshape(is_visible, (-1, rows * columns)),
        )

    def compute_output_spec(self, features: Any, mask: Any = None) -> tuple[Any, Any]:
        batch, *places, width = features.shape
        shape = (batch, math.prod(places) if len(places) == 2 else places[0])  # (B, S)
        width += 2 * _WAVES if len(places) == 2 else 0
        return (
            keras.KerasTensor((*shape, width), self.compute_dtype),
            keras.KerasTensor(shape, "bool"),
        )

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None


def _waves(count: int) -> np.ndarray:
    """Returns cos(π k (i + ½) / n) for i = 0 … n − 1 and k = 1, 2, …: (n, ·)."""
    place = (np.arange(count) + 0.5) / count
    waves = np.cos(np.pi * place[:, None] * np.arange(1, _WAVES + 1))
    return waves.astype("float32")
