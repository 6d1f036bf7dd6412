"""A Transformer that puts a sequence into a class.

Shapes: B batch, T tokens, D model width, C classes.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.serialization import export
from keras_attention.layers.transformer.block import norm_like
from keras_attention.models.base.arguments import check_sizes
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.transformer.block_maker import BlockMaker
from keras_attention.models.transformer.token_embedding import TokenEmbedding
from keras_attention.numerics.precision import to_float32

Tensor = Any
STDDEV = 0.02  # of embeddings without waves beside them, as in BERT


@export
class TransformerClassifier(ConfiguredModel):
    """An encoder whose outputs are added up over the words and classified.

        x₀ = dropout(E[y] + p), or dropout(√D E[y] + p) where p are sine waves
        xₗ = block(xₗ₋₁), in which every word sees every other
        logits = W dropout(Σₜ x_L,ₜ / √n) + b           over the n words of a sequence

    The root keeps the sum at one scale: n words that have nothing to do with each other
    add up to √n times the length of one.

    The loss of whole numbers as labels is
    `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`.

    Args:
        vocabulary_size: the number of tokens, padding 0 included.
        num_classes: C.
        num_layers: how many blocks.
        dim: D.
        num_heads: of each block's attention; by default 4, and None where `attention`
            is a layer.
        intermediate_dim: the width inside each block's MLP.
        dropout: of the embedding, of what each sublayer returns, and of the sum.
        position: "sinusoidal" or "learned" (added to the embedding), "rotary", "alibi",
            "relative" (in each attention), a layer of positions, or None. A layer is
            copied wherever it is used, with weights of its own.
        max_length: how many positions there are, if they are learned.
        block: further arguments of the blocks by name, among them `norm_first`,
            `normalization`, `epsilon`, `gated`, `activation` and `attention`, which
            itself is a dict; see `TransformerEncoderBlock`. With `norm_first` the sum
            is normalized as the blocks normalize: words keep their weight in it.
        attention: an attention layer to take the place of multi-head attention: any of
            this package, or a Keras layer with Keras' call, whose output has the width
            of its queries. Each block gets a layer of its own, made from the config of
            this one, which must not be built.

    Inputs: a dict of
        tokens: int32 (B, T), 0 is padding, behind the sequence.

    A call does not look at tokens: one outside the vocabulary gives NaN on JAX, and an
    error of the backend on others.

    Returns:
        Logits (B, C).

    Masking:
        Padding is neither read nor counted: more of it changes nothing. A sequence of
        nothing else has the sum 0.

    Raises:
        ValueError: for sizes below 1, heads that do not divide D, a dropout that is not
            at least 0 and below 1, an unknown position, arguments that a block does not
            have, an `attention` that is none, is built, or is given beside `num_heads`,
            or, where it is called, more tokens than learned positions.

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
        the sum of its words over the root of their number: Cer et al., "Universal
        sentence encoder" (2018), section 3.1.
    """

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
        check_sizes(
            vocabulary_size=vocabulary_size,
            num_classes=num_classes,
            num_layers=num_layers,
            dim=dim,
            max_length=max_length,
        )
        maker = BlockMaker(
            dim,
            num_heads,
            intermediate_dim,
            dropout,
            position,
            block,
            attention,
            dtype=dtype,
            heads=4,
        )
        num_heads = maker.num_heads
        waves = maker.added == "sinusoidal"
        embed = TokenEmbedding(
            vocabulary_size,
            dim,
            maker.added,
            max_length=max_length,
            dropout=dropout,
            scale=waves,
            stddev=None if waves else STDDEV,
            dtype=dtype,
        )
        tokens = keras.Input((None,), dtype="int32", name="tokens")  # (B, T)
        is_valid = ops.not_equal(tokens, 0)
        x = embed(tokens)  # (B, T, D)
        for n in range(num_layers):
            last = maker.encoder(f"block_{n}")
            x = last(x, mask=is_valid)
        x = _pool(x, is_valid)  # (B, D)
        if last.norm_first:
            x = norm_like(last, "last_norm")(x)
        x = keras.layers.Dropout(dropout, dtype=dtype, name="pooled_dropout")(x)
        logits = keras.layers.Dense(num_classes, dtype=dtype, name="logits")(x)
        super().__init__({"tokens": tokens}, logits, locals())


def _pool(x: Tensor, mask: Tensor) -> Tensor:
    """Σ x / √n over the n of mask (B, T) that are valid, of x (B, T, D): (B, D)."""
    mask = ops.expand_dims(ops.cast(mask, "float32"), 2)  # (B, T, 1)
    total = ops.sum(to_float32(x) * mask, axis=1)  # (B, D)
    count = ops.maximum(ops.sum(mask, axis=1), 1.0)  # (B, 1)
    return ops.cast(total * ops.rsqrt(count), x.dtype)
