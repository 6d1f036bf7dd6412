"""A language model that fills gaps from both sides, as BERT.

Shapes: B batch, T tokens, P positions that are asked for, D model width, V vocabulary.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.serialization import export
from keras_attention.layers.transformer.block import norm_like
from keras_attention.models.base.arguments import check_sizes
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.transformer.block_maker import BlockMaker
from keras_attention.models.transformer.token_embedding import TokenEmbedding

Tensor = Any
BLOCK = {"activation": "gelu"}


@export
class MaskedLM(ConfiguredModel):
    """A language model: what stood where a token is hidden.

        x₀ = dropout(norm(E[y] + p))
        xₗ = block(xₗ₋₁), in which each position sees all others
        h  = norm(f(W x_L + b))                      at the positions asked for
        p(word) = softmax(E h + c)

    With "sinusoidal" positions √D E[y] is embedded in place of E[y]. With `norm_first`
    what is embedded is not normalized, and x_L is.

    `keras_attention.text.TokenMasking` makes inputs, labels and weights of sequences;
    the loss is `SparseCategoricalCrossentropy(from_logits=True)`.

    Args:
        vocabulary_size: V, the number of tokens, padding 0 and the mask token included.
        num_layers: how many blocks.
        dim: D.
        num_heads: of each block's attention; by default 8, and None where `attention`
            is a layer.
        intermediate_dim: the width inside each block's MLP.
        dropout: of the embedding and of what each sublayer returns.
        position: "learned" or "sinusoidal" (added to the embedding), "rotary", "alibi",
            "relative" (in each attention), a layer of positions, or None. A layer is
            copied wherever it is used, with weights of its own.
        max_length: how many positions there are, if they are learned.
        tie_embeddings: whether the logits are products with the embedding itself.
        block: further arguments of the blocks, see `TransformerEncoderBlock`; that of
            BERT, {"activation": "gelu"}, holds where it has no other. Their activation
            is f, too.
        attention: an attention layer to take the place of multi-head attention: any of
            this package, or a Keras layer with Keras' call, whose output has the width
            of its queries. Each block gets a layer of its own, made from the config of
            this one, which must not be built.

    Inputs: a dict of
        tokens: int32 (B, T), 0 is padding, behind the sequence.
        mask_positions: int32 (B, P), the positions of which the logits are asked for,
            at least 0 and below T.

    A call does not look at them: a token outside the vocabulary gives NaN on JAX, and
    an error of the backend on others; so does a position beyond T, but on torch, which
    then gives logits of another one. `TokenMasking` names positions within T alone.

    Returns:
        Logits (B, P, V).

    Masking:
        Padding is never attended to; more of it changes nothing.

    Raises:
        ValueError: for sizes below 1, heads that do not divide D, a dropout that is not
            at least 0 and below 1, an unknown position, arguments that a block does not
            have, an `attention` that is none, is built, or is given beside `num_heads`,
            or, where it is called, more tokens than learned positions.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import MaskedLM
    >>> model = MaskedLM(11, num_layers=2, dim=8, num_heads=2, intermediate_dim=16)
    >>> tokens = np.array([[5, 10, 7, 8], [10, 9, 0, 0]])
    >>> gaps = np.array([[1], [0]])
    >>> tuple(model({"tokens": tokens, "mask_positions": gaps}).shape)
    (2, 1, 11)

    Reference:
        Devlin et al., "BERT: pre-training of deep bidirectional Transformers for
        language understanding" (2019), section 3.1; without its second task and its
        segments, as Liu et al., "RoBERTa" (2019).
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int = 6,
        dim: int = 512,
        num_heads: int | None = None,
        intermediate_dim: int = 2048,
        dropout: float = 0.1,
        position: Any = "learned",
        max_length: int = 512,
        tie_embeddings: bool = True,
        block: dict[str, Any] | None = None,
        attention: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        check_sizes(
            vocabulary_size=vocabulary_size,
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
            defaults=BLOCK,
        )
        num_heads = maker.num_heads
        blocks = [maker.encoder(f"block_{n}") for n in range(num_layers)]

        norm = partial(norm_like, blocks[-1])
        ends = TokenEmbedding(
            vocabulary_size,
            dim,
            maker.added,
            max_length=max_length,
            dropout=dropout,
            scale=maker.added == "sinusoidal",
            tied=tie_embeddings,
            normalization=None if blocks[0].norm_first else norm("embedding_norm"),
            dtype=dtype,
        )
        dense = keras.layers.Dense(
            dim, activation=blocks[0].activation, dtype=dtype, name="head"
        )
        bias = _Bias(dtype=dtype, name="logits")

        tokens = keras.Input((None,), dtype="int32", name="tokens")  # (B, T)
        mask_positions = keras.Input(
            (None,), dtype="int32", name="mask_positions"
        )  # (B, P)
        is_valid = ops.not_equal(tokens, 0)
        x = ends(tokens)  # (B, T, D)
        for one in blocks:
            x = one(x, mask=is_valid)
        if blocks[0].norm_first:
            x = norm("final_norm")(x)
        x = ops.take_along_axis(
            x, ops.expand_dims(mask_positions, 2), axis=1
        )  # (B, P, D)
        hidden = norm("head_norm")(dense(x))
        logits = bias(ends.logits(hidden))  # (B, P, V)
        super().__init__(
            {"tokens": tokens, "mask_positions": mask_positions}, logits, locals()
        )


class _Bias(keras.layers.Layer):
    """Adds a trained number for each word to its logits (..., V)."""

    def build(self, logits_shape: Any) -> None:
        self.bias = self.add_weight(
            shape=(logits_shape[-1],), initializer="zeros", name="bias"
        )
        self.built = True

    def call(self, logits: Tensor) -> Tensor:
        return logits + ops.cast(self.bias, logits.dtype)

    def compute_output_shape(self, logits_shape: Any) -> tuple:
        return tuple(logits_shape)
