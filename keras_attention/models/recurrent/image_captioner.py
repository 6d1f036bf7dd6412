"""An image captioner that attends to one location after another.

Shapes: B batch, S locations of an image, T words of a caption, D width of a word, U
units of a cell, V vocabulary. Rows, columns and channels are written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import (
    fraction,
    positive,
)
from keras_attention.layers.base.serialization import export
from keras_attention.models.base.arguments import check_sizes
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.base.exported_generation import ExportsTargets
from keras_attention.models.base.generation import Generator, named_input
from keras_attention.models.recurrent.caption_parts import CaptionParts
from keras_attention.models.recurrent.doubly_stochastic import DoublyStochastic
from keras_attention.models.recurrent.token_decoder import check_cell

Tensor = Any


@export
class ImageCaptioner(ExportsTargets, ConfiguredModel):
    """Show, attend and tell: a convolutional encoder and a decoder that attends to it.

        f  = encoder(image)                      f₁ … f_S, the locations, row by row
        aᵢ = [fᵢ; position of i]                 for locations with fᵢ ≠ 0 only
        s₀ = tanh(W_s ā + b_s),  ā the mean of aᵢ  (for an LSTM also c = W_c ā + b_c)
        sₜ, zₜ, αₜ = AttentionRNN(E yₜ₋₁, sₜ₋₁; a)
        p(yₜ | y₁ … yₜ₋₁) = softmax(W_o tanh(E yₜ₋₁ + W_h [sₜ; zₜ]))

    The encoder is small and starts untrained. For each number of filters, it has a 3 ×
    3 convolution, a relu, and a pooling that halves rows and columns. The encoder has
    no bias, so features are 0 where pixels are 0. A location with features 0 is blank,
    and the decoder does not attend to it. The position of a location consists of cos(π
    k (i + ½) / n) for k = 1 … 4, for its row i of n rows and likewise for its column.
    `encoder` may be pretrained on another task, as in the paper.

    Train the model with teacher forcing: `target` begins with the start token. The
    labels are the same sequence without the start token, padded with 0. The loss
    `SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)` ignores padding.

    Args:
        image_shape: the numbers of rows, columns and channels of an image.
        target_vocabulary_size: V, the number of tokens, including padding 0.
        embedding_dim: D, the width of a word.
        units: U, the units of the decoder and of the attention.
        filters: the number of filters of each block of the encoder.
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
            heads, α is the average over the heads.
        dropout: the dropout rate of the words that the decoder reads, and of its
            outputs.

    Inputs: a dict of
        image: (B, rows, columns, channels).
        target: int32 (B, T), beginning with the start token, 0 for padding at the end.

    Returns:
        Logits (B, T, V).

    Masking:
        The logits at a position do not depend on later tokens of the target. Locations
        with all features 0 get weight 0. If an image has only such locations, z is 0.

    Raises:
        ValueError: for sizes below 1; an `image_shape` that does not have three sizes;
            no filters; an unknown cell, attention or order; an attention layer that
            learns only through the weights that it returns
            (`HardAttention(estimator="reinforce")`); a `doubly_stochastic` below 0; or
            a dropout outside [0, 1). Calls also raise it for ids in NumPy arrays that
            are below 0 or not below the number of ids.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import ImageCaptioner
    >>> model = ImageCaptioner((16, 24, 1), 7, embedding_dim=3, units=5, filters=(2, 4))
    >>> model.grid
    (4, 6)
    >>> image = np.zeros((2, 16, 24, 1), "float32")
    >>> model.generate(image, max_length=6, stop_token_ids=3).shape
    (2, 6)

    Reference:
        Xu et al., "Show, attend and tell" (2015), sections 3.1 and 4.2, equations 7
        (tanh as in the authors' code), 13 and 14, without the gate β of 4.2.1; "after":
        Lu et al., "Knowing when to look" (2017), section 2.2, without the sentinel.
    """

    id_sizes: ClassVar[dict[str, str]] = {"target": "target_vocabulary_size"}

    def __init__(
        self,
        image_shape: Sequence[int],
        target_vocabulary_size: int,
        embedding_dim: int = 256,
        units: int = 256,
        filters: Sequence[int] = (32, 64, 128),
        cell: str = "lstm",
        attention: Any = "bahdanau",
        order: str = "before",
        doubly_stochastic: float = 0.0,
        dropout: float = 0.0,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        image_shape, filters = _shape(image_shape), tuple(filters)
        check_sizes(
            target_vocabulary_size=target_vocabulary_size,
            embedding_dim=embedding_dim,
            units=units,
        )
        _check(filters, cell, doubly_stochastic, dropout)

        image = keras.Input(image_shape, name="image")
        target = keras.Input((None,), dtype="int32", name="target")  # (B, T)
        parts = CaptionParts(
            image_shape,
            target_vocabulary_size,
            embedding_dim,
            units,
            filters,
            cell,
            attention,
            order,
            dropout,
            dtype,
        )
        memory, is_valid, state = parts.encode(image)
        words = parts.decoder.embedding(target)  # (B, T, D)
        options = {"return_attention_scores": True} if doubly_stochastic else {}
        found = parts.decoder.rnn(
            parts.dropout(words),
            memory,
            initial_state=state,
            memory_mask=is_valid,
            **options,
        )
        if doubly_stochastic:
            penalty = DoublyStochastic(doubly_stochastic, name="sees_all")
            found = penalty(*found, target, is_valid)
        logits = parts.logits_of(words, found)  # (B, T, V)

        super().__init__({"image": image, "target": target}, logits, locals())
        self._parts = parts
        self._generator = Generator(self, {})

    @property
    def encoder(self) -> keras.Sequential:
        """Maps images to features (B, rows, columns, ·) on the grid of locations."""
        return self._parts.encoder

    @property
    def grid(self) -> tuple[int, int]:
        """The numbers of rows and columns of locations; their product is S."""
        rows, columns = self.image_shape[:2]
        for _ in self.filters:
            rows, columns = -(-rows // 2), -(-columns // 2)
        return rows, columns

    def begin(self, inputs: dict[str, Tensor]) -> tuple[dict[str, Any], Any]:
        """Encodes the image before the first call of `next`.

        Args:
            inputs: {"image": (B, rows, columns, channels)}.

        Returns:
            The cache that `next` updates, and the read-only inputs of `next`. The
            "alignment_sum" (B, S) of the cache is the total attention to each location,
            for the coverage penalty of a beam search.
        """
        image = ops.cast(inputs["image"], self.compute_dtype)
        memory, is_valid, state = self._parts.encode(image)
        attended = ops.zeros(ops.shape(memory)[:2], "float32")
        return self._parts.decoder.begin(memory, state, is_valid, attended)

    def next(
        self, prompt: Tensor, cache: dict[str, Any], index: Any, static: Any
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Returns the logits of the token at `index`, given the token before it.

        This is KerasHub's protocol; see `keras_attention.samplers`.

        Args:
            prompt: (B, T).
            cache: the cache returned by `begin` or by the previous call.
            index: the position, at least 1.
            static: the read-only arguments returned by `begin`.

        Returns:
            Logits (B, V), the output of the decoder (B, ·), and the cache.
        """
        decoder = self._parts.decoder
        word, found, cache = decoder.step(prompt, cache, index, static)
        return self._parts.logits_of(word, found), found, cache

    def generate(
        self,
        inputs: Any,
        max_length: int = 64,
        sampler: Any = "greedy",
        start_token_id: int = 2,
        stop_token_ids: Any = 3,
        seed: int | None = None,
    ) -> np.ndarray:
        """Generates a caption for each image.

        The program is compiled once per number of images and bucket of lengths. The
        buckets are multiples of 16.

        Args:
            inputs: {"image": (B, rows, columns, channels)}, or only the array.
            max_length: the maximum number of tokens to generate.
            sampler: "greedy", "beam", "random", "top_k", "top_p", or a sampler of
                `keras_attention.samplers` or of KerasHub.
            start_token_id: the token before the first generated token.
            stop_token_ids: the token or tokens that end a caption; None for no stop
                token.
            seed: the seed of a random sampler.

        Returns:
            int32 (B, max_length), without the start token, 0 after a stop token.

        Raises:
            ValueError: for images of another shape, a `max_length` below 1, or tokens
                outside the vocabulary.
        """
        image = named_input("image", inputs)
        image = np.asarray(ops.convert_to_numpy(image))
        fits = image.ndim == 4 and image.shape[1:] == self.image_shape and len(image)
        if not fits or image.dtype.kind not in "fiub":
            raise ValueError(
                "`image` must be numbers of shape (batch, "
                f"{str(self.image_shape)[1:]}, at least one. "
                f"Received: dtype={image.dtype}, shape={image.shape}"
            )
        return self._generator(
            {"image": image.astype("float32")},
            max_length,
            sampler,
            start_token_id,
            stop_token_ids,
            seed,
        )


def _shape(given: Any) -> tuple[int, int, int]:
    """Returns the three sizes of an image as a tuple."""
    if not isinstance(given, (list, tuple)) or len(given) != 3:
        raise ValueError(
            "`image_shape` must be rows, columns and channels. "
            f"Received: image_shape={given!r}"
        )
    rows, columns, channels = (positive("image_shape", size) for size in given)
    return rows, columns, channels


def _check(filters: tuple, cell: str, penalty: float, dropout: float) -> None:
    if not filters:
        raise ValueError("`filters` must hold at least one number. Received: ()")
    for width in filters:
        positive("filters", width)
    check_cell(cell)
    if not penalty >= 0:
        raise ValueError(
            "`doubly_stochastic` must be at least 0. "
            f"Received: doubly_stochastic={penalty}"
        )
    fraction("dropout", dropout)
