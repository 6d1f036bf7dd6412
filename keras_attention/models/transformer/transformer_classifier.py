"""A Transformer that classifies sequences.

Shapes: B batch, T tokens, D model width, C classes.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.serialization import export
from keras_attention.layers.transformer.blocks import norm_like
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.base.strings import Classifies
from keras_attention.models.transformer.backbone import Architecture, Backbone
from keras_attention.numerics.precision import to_float32

Tensor = Any
STDDEV = 0.02  # of embeddings without sinusoidal positions, as in BERT


@export
class TransformerClassifier(Classifies, ConfiguredModel):
    """An encoder that sums its outputs over the words and classifies the sum.

        x₀ = dropout(E[y] + p), or dropout(√D E[y] + p) if p is sinusoidal
        xₗ = block(xₗ₋₁), in which every word attends to all words
        logits = W dropout(Σₜ x_L,ₜ / √n) + b           over the n words of a sequence

    The factor 1/√n keeps the scale of the sum constant: the sum of n uncorrelated
    vectors is √n times as long as one vector.

    For integer labels, use the loss
    `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`.

    Args:
        vocabulary_size: the number of tokens, including padding 0.
        num_classes: C, the number of classes.
        num_layers: the number of blocks.
        dim: D, the width of the model.
        num_heads: the number of heads of each block's attention; defaults to 4. Must be
            None if `attention` is a layer.
        intermediate_dim: the width of the hidden layer of each block's MLP.
        dropout: the dropout rate of the embedding, of each sublayer's output and of the
            sum.
        position: "sinusoidal" or "learned" (added to the embedding); "rotary", "alibi"
            or "relative" (in each attention); a position layer; or None. A layer is
            copied for each use; the copies have separate weights.
        max_length: the number of learned positions.
        block: further arguments of the blocks by name, for instance `norm_first`,
            `normalization`, `epsilon`, `gated`, `activation` and `attention`, which is
            a dict; see `TransformerEncoderBlock`. With `norm_first`, a normalization as
            in the blocks is applied to the sum and not to each word, so each word keeps
            its weight in the sum.
        attention: an attention layer that replaces multi-head attention: any layer of
            this package, or a Keras layer that is called like Keras' attention layers.
            Its output must have the width of its queries. It must not be built: each
            block creates a new layer from its config.

    Inputs: a dict of
        tokens: int32 (B, T), 0 for padding after the sequence.

    A call does not check the tokens. A token outside the vocabulary gives NaN on JAX
    and a backend error on the other backends.

    Returns:
        Logits (B, C).

    Masking:
        The model neither reads nor counts padding; the amount of padding has no effect.
        A sequence with only padding has the sum 0.

    Raises:
        ValueError: for sizes below 1; heads that do not divide D; a dropout outside [0,
            1); an unknown position; arguments that a block does not have; an
            `attention` that is not an attention layer, is built, or is given together
            with `num_heads`; or, in a call, more tokens than learned positions. Calls
            also raise it for ids in NumPy arrays that are below 0 or not below the
            number of ids.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import TransformerClassifier
    >>> model = TransformerClassifier(11, 3, num_layers=1, dim=8, num_heads=2,
    ...                               intermediate_dim=16)
    >>> logits = model({"tokens": np.array([[5, 6, 7], [8, 0, 0]])})
    >>> tuple(logits.shape)
    (2, 3)

    Reference:
        The blocks: Vaswani et al., "Attention is all you need" (2017); a sentence as
        the sum of its words, divided by the root of their number: Cer et al.,
        "Universal sentence encoder" (2018), section 3.1.
    """

    id_sizes: ClassVar[dict[str, str]] = {"tokens": "vocabulary_size"}

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int,
        num_layers: int = 2,
        dim: int = 128,
        num_heads: int | None = None,
        intermediate_dim: int = 512,
        dropout: float = 0.1,
        position: Any = "sinusoidal",
        max_length: int = 512,
        block: dict[str, Any] | None = None,
        attention: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        architecture = Architecture(locals(), default_heads=4)
        num_heads = architecture.num_heads
        is_sinusoidal = architecture.position == "sinusoidal"
        embedding = architecture.embedding(
            vocabulary_size,
            max_length=max_length,
            stddev=None if is_sinusoidal else STDDEV,
        )
        blocks = [architecture.encoder(f"block_{n}") for n in range(num_layers)]
        backbone = Backbone(embedding, blocks)
        head = [
            keras.layers.Dropout(dropout, dtype=dtype, name="pooled_dropout"),
            keras.layers.Dense(num_classes, dtype=dtype, name="logits"),
        ]
        if blocks[0].norm_first:  # the sum, so that each word keeps its weight in it
            head.insert(0, norm_like(blocks[0], "last_norm"))

        def read(
            tokens: Tensor, segment_ids: Tensor | None = None, max_segments: int = 1
        ) -> Tensor:
            mask = ops.not_equal(tokens, 0)
            x = backbone(tokens, segment_ids=segment_ids, mask=mask)  # (B, T, D)
            if segment_ids is None:
                x = _pool(x, mask)  # (B, D)
            else:
                numbers = ops.arange(1, max_segments + 1, dtype="int32")
                ids = ops.expand_dims(segment_ids * ops.cast(mask, "int32"), 1)
                x = _pool(x, ops.equal(ids, ops.expand_dims(numbers, 1)))  # (B, N, D)
                x = ops.reshape(x, (-1, dim))
            for layer in head:
                x = layer(x)
            if segment_ids is None:
                return x
            return ops.reshape(x, (-1, max_segments, num_classes))  # (B, N, C)

        tokens = keras.Input((None,), dtype="int32", name="tokens")  # (B, T)
        super().__init__({"tokens": tokens}, read(tokens), locals())
        self._read = read  # for `PackedModel`


def _pool(x: Tensor, mask: Tensor) -> Tensor:
    """Sums x (B, T, D) over the n steps where `mask` is True; returns the sum / √n.

    The result is (B, D) for a mask (B, T), and (B, N, D) for a mask (B, N, T).
    """
    mask, values = ops.cast(mask, "float32"), to_float32(x)
    if len(mask.shape) == 3:
        total = ops.matmul(mask, values)  # (B, N, D)
    else:
        total = ops.sum(values * ops.expand_dims(mask, 2), axis=1)  # (B, D)
    count = ops.maximum(ops.sum(mask, axis=-1, keepdims=True), 1.0)
    return ops.cast(total * ops.rsqrt(count), x.dtype)
