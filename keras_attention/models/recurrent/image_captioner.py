"""An image captioner that attends to one location after another.

Shapes: B batch, S locations of an image, T words of a caption, D width of a word, U
units of a cell, V vocabulary, A width of a location, H heads. Rows, columns and
channels are written out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention.layers.attention import BahdanauAttention, CarryChoices
from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.arguments import fraction, positive
from keras_attention.layers.base.serialization import QUANTIZED, as_config, export
from keras_attention.models.base.configured_model import ConfiguredModel, check_sizes
from keras_attention.models.base.generation import GeneratesTargets
from keras_attention.models.base.strings import Captions
from keras_attention.models.recurrent.token_decoder import (
    TokenDecoder,
    attention_rnn,
    average_heads,
    check_cell,
    word_embedding,
)
from keras_attention.ops.sequence import decoding

Tensor = Any
FILTERS = (32, 64, 128)
_WAVES = 4  # cosines per axis that encode a position


@export
class ImageCaptioner(Captions, GeneratesTargets, ConfiguredModel):
    """Show, attend and tell: an encoder of images, and a decoder that attends to it.

        f  = encoder(image)                      f₁ … f_S, the locations, row by row
        aᵢ = [fᵢ; position of i]                 for locations with fᵢ ≠ 0 only
        s₀ = tanh(W_s ā + b_s),  ā the mean of aᵢ  (for an LSTM also c = W_c ā + b_c)
        sₜ, zₜ, αₜ = AttentionRNN(E yₜ₋₁, sₜ₋₁; a)
        p(yₜ | y₁ … yₜ₋₁) = softmax(W_o tanh(E yₜ₋₁ + W_h [sₜ; zₜ]))

    The default encoder, "cnn", is small and starts untrained. For each number of
    filters, it has a 3 × 3 convolution, a relu, and a pooling that halves rows and
    columns. It has no bias, so features are 0 where pixels are 0. A location with
    features 0 is blank, and the decoder does not attend to it.

    The encoder may also be any Keras layer or model that returns a grid of features (B,
    rows, columns, ·) or a set of features (B, S, ·), such as a model of
    `keras.applications` with `include_top=False`. It reads images as they are given,
    after the user's own preprocessing. With `encoder=None`, the inputs are the features
    themselves, such as the 196 × 512 features of the paper.

    The position of a location of a grid consists of cos(π k (i + ½) / n) for k = 1 … 4,
    for its row i of n rows and likewise for its column. In a set, aᵢ = fᵢ.

    Train the model with teacher forcing: `target` begins with the start token. The
    labels are the same sequence without the start token, padded with 0. The loss
    `SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)` ignores padding.

    With `attention=HardAttention(estimator="reinforce")`, the model samples one
    location for each word in training, and attends to the most probable location at
    inference. It needs the loss `keras_attention.losses.ReinforceLoss` around this
    loss. A choice is credited only with the words that it can affect.

    Args:
        image_shape: the numbers of rows, columns and channels of an image; for a given
            encoder, the shape of its input without the batch. With `encoder=None`, the
            shape of the features: (rows, columns, ·), or (S, ·), where S may be None
            for features of any number.
        target_vocabulary_size: V, the number of tokens, including padding 0.
        embedding_dim: D, the width of a word.
        units: U, the units of the decoder and of the attention.
        filters: the number of filters of each block of the encoder "cnn".
        cell: "lstm" or "gru".
        attention: "bahdanau" or an attention layer: a layer of this package, of Keras,
            or a layer that is called like Keras' attention layers.
        order: "before": the previous state is the query, and the cell reads the
            context, as in the paper. "after": the new state, which has read the last
            word, is the query. The context then only affects the prediction of the next
            word.
        doubly_stochastic: λ, the weight of the penalty λ Σᵢ (1 − Σₜ αₜᵢ)². The penalty
            is averaged over captions and added to the loss. It makes a caption attend
            to every location. Here t runs over the words that are not padding, and i
            runs over the locations that are not blank. If the attention layer has
            heads, α is the average over the heads. It must be 0 for an attention layer
            that learns by REINFORCE; the paper defines it for soft attention.
        dropout: the dropout rate of the words that the decoder reads, and of its
            outputs.
        encoder: "cnn"; a layer or model with one input and one output, which is saved
            with the captioner and stays frozen if its `trainable` is False; or None.

    Inputs: a dict of
        image: (B, *image_shape); without an encoder, it is called "features".
        target: int32 (B, T), beginning with the start token, 0 for padding at the end.

    Returns:
        Logits (B, T, V); log-probabilities for an attention layer that learns by
        REINFORCE.

    Masking:
        The logits at a position do not depend on later tokens of the target. Locations
        with all features 0 get weight 0: pad features of unequal number with zeros.
        Locations hidden by a mask that the encoder's output carries, as that of
        `keras.layers.Masking`, get weight 0, too. s₀ does not depend on them. If an
        image has only such locations, z is 0.

    Raises:
        ValueError: for sizes below 1; an `image_shape` that does not fit the encoder;
            an encoder that is no layer or does not return features; no filters, or
            filters for another encoder than "cnn"; an unknown cell, attention or order;
            a `doubly_stochastic` below 0, or above 0 with REINFORCE; or a dropout
            outside [0, 1). `fit` raises it for another loss than `ReinforceLoss`, or
            none, with REINFORCE. Calls raise it for ids in NumPy arrays that are below
            0 or not below the number of ids.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import ImageCaptioner
    >>> model = ImageCaptioner((16, 24, 1), 7, embedding_dim=3, units=5, filters=(2, 4))
    >>> model.grid
    (4, 6)
    >>> image = np.zeros((2, 16, 24, 1), "float32")
    >>> model.generate(image, max_length=6, stop_token_ids=3).shape
    (2, 6)

    Features of another model:

    >>> model = ImageCaptioner((196, 512), 7, embedding_dim=3, units=5, encoder=None)
    >>> features = np.ones((2, 196, 512), "float32")
    >>> model.generate({"features": features}, max_length=6).shape
    (2, 6)

    Reference:
        Xu et al., "Show, attend and tell" (2015), sections 3.1, 4.1 and 4.2, equations
        7 (tanh as in the authors' code), 13 and 14, without the gate β of 4.2.1;
        "after": Lu et al., "Knowing when to look" (2017), section 2.2, without the
        sentinel.
    """

    id_sizes: ClassVar[dict[str, str]] = {"target": "target_vocabulary_size"}

    def __init__(
        self,
        image_shape: Sequence[int | None],
        target_vocabulary_size: int,
        embedding_dim: int = 256,
        units: int = 256,
        filters: Sequence[int] = FILTERS,
        cell: str = "lstm",
        attention: Any = "bahdanau",
        order: str = "before",
        doubly_stochastic: float = 0.0,
        dropout: float = 0.0,
        encoder: Any = "cnn",
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        image_shape = shape = check_image_shape(image_shape, encoder)
        filters = check_filters(filters, encoder)
        check_sizes(
            target_vocabulary_size=target_vocabulary_size,
            embedding_dim=embedding_dim,
            units=units,
        )
        check_cell(cell)
        if not doubly_stochastic >= 0:
            raise ValueError(
                "`doubly_stochastic` must be at least 0. "
                f"Received: doubly_stochastic={doubly_stochastic}"
            )
        fraction("dropout", dropout)

        name = "features" if encoder is None else "image"
        image = keras.Input(image_shape, name=name)
        target = keras.Input((None,), dtype="int32", name="target")  # (B, T)

        def dense(width: int, activation: Any, name: str) -> Any:
            return keras.layers.Dense(width, activation, dtype=dtype, name=name)

        parts = CaptionParts()
        parts.encoder = encoder
        if encoder == "cnn":
            parts.encoder = image_encoder(shape, filters, dtype)
        parts.places = Places(dtype=dtype, name="places")
        parts.start = [dense(units, "tanh", "start")]
        if cell == "lstm":
            parts.start.append(dense(units, None, "start_cell"))
        embedding = word_embedding(
            target_vocabulary_size, embedding_dim, "words", dtype
        )
        parts.deep = dense(embedding_dim, None, "deep")
        parts.logits = dense(target_vocabulary_size, None, "logits")
        # `attention_rnn` would create it after the cell: a seed would then give other
        # initial weights than in earlier versions.
        layer = attention
        if attention == "bahdanau":
            layer = BahdanauAttention(units, dtype=dtype, name="attention")
        rnn = attention_rnn(layer, cell, units, dtype, ("bahdanau",), order, True)
        parts.decoder = TokenDecoder(embedding, rnn)
        parts.carry = None  # of an attention layer that learns by its weights
        protocol = as_attention(rnn.attention)
        if protocol.learns_by_weights:
            if doubly_stochastic:
                raise ValueError(
                    "`doubly_stochastic` must be 0 for an attention layer that learns "
                    "by REINFORCE: the gradient of its weights is not that of the "
                    f"penalty. Received: doubly_stochastic={doubly_stochastic}, "
                    f"attention={attention!r}"
                )
            # After the cell, a choice affects its own logits alone.
            is_stateless = not protocol.state_shapes((1, 1))
            credit = "own" if order == "after" and is_stateless else "later"
            parts.carry = CarryChoices(credit, dtype=dtype, name="choices")
        parts.dropout = keras.layers.Dropout(dropout, dtype=dtype, name="dropout")

        features = parts.features_of(image)
        check_features(features, parts.encoder)
        memory, is_valid, state = parts.encode(features)
        words = parts.decoder.embedding(target)  # (B, T, D)
        weighted = bool(doubly_stochastic) or parts.carry is not None
        outputs = parts.decoder.rnn(
            parts.dropout(words),
            memory,
            initial_state=state,
            memory_mask=is_valid,
            return_attention_scores=weighted,
        )
        if weighted:
            outputs, weights = outputs
        if doubly_stochastic:
            penalty = DoublyStochastic(doubly_stochastic, name="sees_all")
            outputs = penalty(outputs, weights, target, is_valid)
        logits = parts.logits_of(words, outputs)  # (B, T, V)
        if parts.carry is not None:
            logits = parts.carry(logits, weights)

        super().__init__({name: image, "target": target}, logits, locals())
        self._parts = parts
        self._grid = tuple(features.shape[1:3]) if len(features.shape) == 4 else None
        self._layer_configs["encoder"] = as_config(encoder)
        self._input = name

    @property
    def encoder(self) -> Any:
        """Maps images to features; None if the inputs are features."""
        return self._parts.encoder

    @property
    def grid(self) -> tuple[int, int] | None:
        """The numbers of rows and columns of locations; their product is S.

        None if the features are a set and not a grid.
        """
        return self._grid

    def _check_data(self, method: str, args: tuple, kwargs: dict[str, Any]) -> None:
        trains = method in ("fit", "train_on_batch") and self._parts.carry is not None
        for loss in keras.tree.flatten(self.loss) if trains and self.compiled else ():
            # A subclass may compute a loss of its own, and compile with loss=None.
            is_own = loss is None and self._overrides_training()
            if not (is_own or getattr(loss, "reads_choices", False)):
                raise ValueError(
                    "`loss` of `compile` must be a `keras_attention.losses."
                    "ReinforceLoss`, or a loss with the attribute `reads_choices=True`"
                    ", for an attention layer that learns by the weights that it "
                    "returns; with another loss, it would never learn. "
                    f"Received: loss={loss!r}"
                )
        super()._check_data(method, args, kwargs)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if QUANTIZED not in config and isinstance(config["encoder"], dict):
            config["encoder"] = as_config(self.encoder)  # which may be frozen by now
        return config

    def begin(self, inputs: dict[str, Tensor]) -> tuple[dict[str, Any], Any]:
        """Encodes the image before the first call of `next`.

        Args:
            inputs: {"image": (B, *image_shape)}, or {"features": (B, *image_shape)}.

        Returns:
            The cache that `next` updates, and the read-only inputs of `next`. The
            "alignment_sum" (B, S) of the cache is the total attention to each location,
            for the coverage penalty of a beam search.
        """
        name = self._input
        image = ops.cast(inputs[name], self.input[name].dtype)
        features = self._parts.features_of(image)
        memory, is_valid, state = self._parts.encode(features)
        attended = ops.zeros(ops.shape(memory)[:2], "float32")
        return self._parts.decoder.begin(memory, state, is_valid, attended)

    def next(
        self, prompt: Tensor, cache: dict[str, Any], index: Any, static: Any
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        decoder = self._parts.decoder
        word, outputs, _, cache = decoder.step(prompt, cache, index, static)
        logits = self._parts.logits_of(word, outputs)
        if self._parts.carry is not None:
            logits = ops.log_softmax(logits)  # as `CarryChoices`
        return logits, outputs, cache

    def _source(self, source: Any, max_length: int) -> np.ndarray:
        name, image = self._input, np.asarray(ops.convert_to_numpy(source))
        is_fit = 0 not in image.shape and fits(image.shape[1:], self.image_shape)
        if not is_fit or image.dtype.kind not in "fiub":
            sizes = ", ".join("any" if n is None else str(n) for n in self.image_shape)
            raise ValueError(
                f"`{name}` must be numbers of shape (batch, {sizes}), at least one. "
                f"Received: dtype={image.dtype}, shape={image.shape}"
            )
        image = image.astype("float32")
        if self.encoder is None and None in self.image_shape:  # blank up to a bucket
            missing = decoding.bucket(image.shape[1]) - image.shape[1]
            image = np.pad(image, ((0, 0), (0, missing), (0, 0)))
        return image


class CaptionParts(SimpleNamespace):
    """The layers of an `ImageCaptioner`, shared by its graph and its generation."""

    def encode(self, features: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Returns a (B, S, A), the mask of a (B, S), and the first state."""
        places, is_valid = self.places(features)
        count = ops.sum(ops.cast(is_valid, places.dtype), axis=1, keepdims=True)
        visible = ops.where(
            ops.expand_dims(is_valid, -1), places, ops.zeros_like(places)
        )
        average = ops.sum(visible, axis=1) / ops.maximum(count, 1)  # (B, A)
        return places, is_valid, [dense(average) for dense in self.start]

    def features_of(self, image: Tensor) -> Tensor:
        """Returns the features; without an encoder, the input itself."""
        return image if self.encoder is None else self.encoder(image)

    def logits_of(self, words: Tensor, outputs: Tensor) -> Tensor:
        """Returns the logits (..., V) from words (..., D) and [s; z] (..., ·)."""
        return self.logits(ops.tanh(words + self.deep(self.dropout(outputs))))


class DoublyStochastic(keras.layers.Layer):
    """Adds λ Σᵢ (1 − Σₜ αₜᵢ)² to the loss (equation 14).

    Args:
        weight: λ, the weight of the penalty.

    Call arguments:
        outputs: a tensor that the layer returns unchanged.
        weights: α, (B, T, S) or (B, H, T, S).
        target: integers (B, T), 0 is padding.
        mask: booleans (B, S), True for locations that are not blank.
    """

    def __init__(self, weight: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.weight = weight

    def call(
        self, outputs: Tensor, weights: Tensor, target: Tensor, mask: Tensor
    ) -> Tensor:
        weights = average_heads(ops.cast(weights, "float32"), 3)  # (B, T, S)
        written = ops.cast(ops.not_equal(target, 0), "float32")[..., None]  # (B, T, 1)
        attended = ops.sum(weights * written, axis=1)  # (B, S)
        lacking = ops.where(mask, (1.0 - attended) ** 2, ops.zeros_like(attended))
        self.add_loss(self.weight * ops.mean(ops.sum(lacking, axis=1)))
        return outputs

    def compute_output_spec(self, outputs: Any, *others: Any) -> Any:
        return keras.KerasTensor(outputs.shape, self.compute_dtype)


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
    if len(shapes) > 1 or not fits(shapes[0], sizes):
        raise ValueError(
            "`image_shape` must be the shape of the one input of `encoder`. Received: "
            f"image_shape={sizes}, encoder={encoder!r} with inputs of the shapes "
            f"{shapes}"
        )


def fits(shape: tuple[int | None, ...], wanted: tuple[int | None, ...]) -> bool:
    """Returns whether two shapes are the same, where None is any size."""
    sizes = zip(shape, wanted)
    return len(shape) == len(wanted) and all(
        size == known or None in (size, known) for size, known in sizes
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
