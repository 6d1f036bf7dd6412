"""The parts of all Transformers: embedding, positions, blocks, final normalization.

Shapes: B batch, T tokens, S positions of a memory, D width, V words of the vocabulary.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import keras
from keras import ops

from keras_attention.layers import positions
from keras_attention.layers.base.adapter import as_attention, check_learns_by_output
from keras_attention.layers.base.arguments import fraction, positive
from keras_attention.layers.positions import PositionEmbedding
from keras_attention.layers.transformer.blocks import (
    Block,
    TransformerDecoderBlock,
    TransformerEncoderBlock,
    copy_layer,
    norm_like,
)
from keras_attention.masks import Segments
from keras_attention.ops.positions import segment_offsets

Tensor = Any
ADDED = ("sinusoidal", "learned")
SIZES = ("num_classes", "num_layers", "dim", "max_length")
# The allowed keys of a model's `block`. All others are arguments of the model.
OF_BLOCKS = sorted(
    {*signature(Block.__init__).parameters}
    - {"self", "num_heads", "intermediate_dim", "dropout", "kwargs"}
)


class Architecture:
    """The checked arguments of a Transformer; creates its embeddings and blocks.

    All blocks have equal settings and separate attention layers. `arguments` are the
    `locals()` of the model's constructor, whose errors this class raises; see
    `Transformer`. `defaults` are arguments of the blocks that `block` overrides.

    Attributes:
        num_heads: the number of heads that the model uses; None with an `attention`.
        position: the position that is added to the embeddings, or None.
    """

    def __init__(
        self, arguments: dict[str, Any], default_heads: int = 8, **defaults: Any
    ) -> None:
        for name, value in arguments.items():
            if name in SIZES or name.endswith("vocabulary_size"):
                positive(name, value)
        dim, num_heads = arguments["dim"], arguments["num_heads"]
        position, block = arguments.get("position"), arguments.get("block")
        self.position, attention_position = split_position(position)
        options = {**defaults, **block_arguments(block, attention_position)}
        names = ("attention", "cross_attention")
        self._layers = {n: arguments[n] for n in names if arguments.get(n) is not None}
        for name, layer in self._layers.items():
            check_layer(name, layer)
        if "attention" in self._layers:
            check_alone(position, attention_position, block)
        else:
            num_heads = default_heads if num_heads is None else num_heads
            check_heads(dim, num_heads, options)
        self.num_heads = num_heads
        self._dim = dim
        self._shared = {name: arguments[name] for name in ("dropout", "dtype")}
        self._arguments = {
            "num_heads": num_heads,
            "intermediate_dim": arguments["intermediate_dim"],
            **self._shared,
            **options,
        }

    def embedding(self, vocabulary_size: int, **options: Any) -> TokenEmbedding:
        """Returns a new embedding with the position; see `TokenEmbedding`."""
        return TokenEmbedding(
            vocabulary_size, self._dim, self.position, **self._shared, **options
        )

    def encoder(self, name: str) -> TransformerEncoderBlock:
        """Returns a new encoder block, which has no memory."""
        return TransformerEncoderBlock(**self._copies("attention"), name=name)

    def decoder(self, name: str) -> TransformerDecoderBlock:
        """Returns a new decoder block, which attends to a memory."""
        arguments = self._copies("attention", "cross_attention")
        return TransformerDecoderBlock(**arguments, name=name)

    def _copies(self, *names: str) -> dict[str, Any]:
        """Returns the arguments of one block, with new copies of these layers."""
        layers = {name: self._layers[name] for name in names if name in self._layers}
        parts = {"attention": "self_attention", "cross_attention": "cross_attention"}
        copies = {name: copy_layer(x, parts[name]) for name, x in layers.items()}
        return {**self._arguments, **copies}


def split_position(position: Any) -> tuple[Any, Any]:
    """Splits the `position` of a model into an embedding part and an attention part.

    At least one of them is None. Any other value than "sinusoidal", "learned", a value
    of `MultiHeadAttention(position=…)`, a layer or None raises a ValueError.
    """
    if position is None or isinstance(position, positions.Position):
        return None, position
    if isinstance(position, keras.layers.Layer) or position in ADDED:
        return position, None
    if isinstance(position, str) and position in positions.NAMES:
        return None, position
    raise ValueError(
        f"`position` must be one of {sorted((*ADDED, *positions.NAMES))}, a layer of "
        f"positions, or None. Received: position={position!r}"
    )


def block_arguments(
    block: dict[str, Any] | None, attention_position: Any
) -> dict[str, Any]:
    """Returns the arguments of a model's blocks, including the attention position.

    Raises:
        ValueError: if both arguments give a position, or `block` is not a dict of such
            arguments.
    """
    known = block is None or (isinstance(block, dict) and {*block} <= {*OF_BLOCKS})
    if not known:
        raise ValueError(
            "`block` must be a dict of further arguments of the blocks, among "
            f"{OF_BLOCKS}, or None. Received: block={block!r}"
        )
    arguments = dict(block or {})
    attention = arguments.get("attention")
    if not (attention is None or isinstance(attention, dict)):
        raise ValueError(
            "The 'attention' of `block` must be a dict of arguments of multi-head "
            "attention; a layer is given as the model's `attention`. Received: "
            f"block={block!r}"
        )
    if attention_position is None:
        return arguments
    attention = dict(attention or {})
    if attention.get("position") is not None:
        raise ValueError(
            "`position` and `block` must not both give the attentions a position. "
            f"Received: position={attention_position!r}, block={block!r}"
        )
    return {**arguments, "attention": {**attention, "position": attention_position}}


def check_heads(dim: int, num_heads: int, arguments: dict[str, Any]) -> None:
    """Raises a ValueError if the heads do not divide a model's width."""
    key_dim = (arguments.get("attention") or {}).get("key_dim")
    if key_dim is None and dim % positive("num_heads", num_heads):
        raise ValueError(
            "`num_heads` must divide `dim`, unless the `attention` of `block` has a "
            f"'key_dim'. Received: num_heads={num_heads}, dim={dim}"
        )


def check_layer(name: str, attention: Any) -> None:
    """Raises a ValueError unless `attention` is a layer that can be copied."""
    check_learns_by_output(as_attention(attention, name), name)
    if attention.built and attention.weights:
        raise ValueError(
            f"`{name}` must not be built: each block gets a layer made from its "
            f"config, without its weights. Received: {name}={attention!r}, which is "
            "built"
        )


def check_alone(
    position: Any, attention_position: Any, block: dict[str, Any] | None
) -> None:
    """Raises a ValueError for arguments that conflict with a given attention layer."""
    if attention_position is not None:
        raise ValueError(
            f"`position` must be None, one of {list(ADDED)} or a layer that is added "
            "to embeddings where `attention` is a layer, which has positions of its "
            f"own. Received: position={position!r}"
        )
    if block and block.get("attention") is not None:
        raise ValueError(
            "`block` must not hold 'attention' where `attention` is a layer. "
            f"Received: block={block!r}"
        )


class TokenEmbedding:
    """The first and the last layers of a Transformer.

        xₜ      = dropout(√D E[yₜ] + pₜ)
        logitsₜ = E hₜ                       or E′ hₜ, if they are not tied

    This class is not a layer, so its layers belong directly to the model. They are
    `embedding`, `position`, `normalization` and `dropout`. `position` and
    `normalization` may be None.

    Args:
        vocabulary_size: V, including padding 0.
        dim: D, the width of the model.
        position: "sinusoidal", "learned", a layer, which is copied, or None.
        max_length: the number of learned positions.
        dropout: the dropout rate of the embedded inputs.
        scale: whether to multiply the embeddings by √D; by default, only with
            sinusoidal positions.
        stddev: the standard deviation of the initial embeddings; defaults to 1 / √D.
        tied: whether the output projection uses the embedding matrix.
        normalization: a layer that normalizes the embedded inputs, or None.
        dtype: the dtype policy of the layers created here.
        name: the name of the embedding, and the prefix of the other names.
    """

    def __init__(
        self,
        vocabulary_size: int,
        dim: int,
        position: Any = None,
        max_length: int = 1024,
        dropout: float = 0.0,
        scale: bool | None = None,
        stddev: float | None = None,
        tied: bool = True,
        normalization: Any = None,
        dtype: Any = None,
        name: str = "token_embedding",
    ) -> None:
        scale = position == "sinusoidal" if scale is None else scale
        self.scale = dim**0.5 if scale else None
        self.embedding: Any = keras.layers.ReversibleEmbedding(
            vocabulary_size,
            dim,
            tie_weights=tied,
            # Otherwise the logits would have the dtype of the weights.
            reverse_dtype=keras.dtype_policies.get(dtype).compute_dtype,
            embeddings_initializer=keras.initializers.RandomNormal(
                stddev=dim**-0.5 if stddev is None else stddev
            ),
            dtype=dtype,
            name=name,
        )
        self.position: Any = position
        if position == "sinusoidal":
            self.position = positions.SinePositionEncoding(
                dtype=dtype, name=f"{name}_position"
            )
        elif position == "learned":
            self.position = PositionEmbedding(
                max_length, dtype=dtype, name=f"{name}_position"
            )
        elif position is not None:
            self.position = copy_layer(position, f"{name}_position")
        self.normalization: Any = normalization
        self.dropout = keras.layers.Dropout(
            fraction("dropout", dropout), dtype=dtype, name=f"{name}_dropout"
        )

    def __call__(self, tokens: Tensor, start: Any = 0) -> Tensor:
        """Embeds tokens (B, T) at the positions from `start` on. Returns (B, T, D)."""
        x = self.embedding(tokens)
        if self.scale is not None:
            x = x * self.scale
        if self.position is not None:
            x = x + self.position(x, start=start)
        if self.normalization is not None:
            x = self.normalization(x)
        return self.dropout(x)


class Backbone:
    """The layers that a Transformer has below its head.

        x₀ = embedding(tokens)
        xₗ = block(xₗ₋₁)
        h  = norm(x_L)                       with `norm_first`, else x_L

    With encoder blocks, it is an encoder, or a language model if each call is causal.
    With decoder blocks, it is a decoder, whose calls take a memory. A model uses it in
    its graph and in its generation. It is not a layer, so its layers belong directly to
    the model. Without the name of a `norm`, the head normalizes.
    """

    def __init__(
        self, embedding: TokenEmbedding, blocks: list[Any], norm: str | None = None
    ) -> None:
        self.embedding = embedding
        self.blocks = blocks
        last: Block = blocks[-1]
        self.norm: Any = norm_like(last, norm) if norm and last.norm_first else None

    def __call__(
        self,
        tokens: Tensor,
        *memory: Tensor,
        segment_ids: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        """Returns the hidden states (B, T, D) of tokens; a memory is (B, S, D).

        With `segment_ids` (B, T), a row holds several texts; see `PackedModel`.
        """
        start: Any = 0
        if segment_ids is not None:
            start = segment_offsets(segment_ids)  # (B, T)
            if "mask" in options:  # 0 is padding
                segment_ids = segment_ids * ops.cast(options.pop("mask"), "int32")
            options["attention_mask"] = Segments(segment_ids)
        x = self.embedding(tokens, start=start)  # (B, T, D)
        for block in self.blocks:
            x = block(x, *memory, **options)
        return self._normalize(x)

    def step(
        self,
        token: Tensor,
        position: Any,
        caches: list[Any],
        index: Any,
        memories: list[Any] | None = None,
    ) -> tuple[Tensor, list[Any]]:
        """Returns the hidden states (B, D) of one token per row, and the new caches.

        The position of the token in its sequence, a number or (B,), may differ from the
        index where it is written to the caches. Decoder blocks get the memory that each
        prepared.
        """
        x, updated = self.embedding(token[:, None], start=position)[:, 0], []
        prepared = [()] * len(caches) if memories is None else [(m,) for m in memories]
        for block, cache, memory in zip(self.blocks, caches, prepared):
            x, cache = block.step(x, cache, index, *memory)
            updated.append(cache)
        return self._normalize(x[:, None])[:, 0], updated  # of the rank that was built

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the logits (..., V) of hidden states (..., D)."""
        return self.embedding.embedding(hidden, reverse=True)

    @property
    def positions(self) -> int | None:
        """The number of learned positions; None if the length is unlimited."""
        return getattr(self.embedding.position, "max_length", None)

    def _normalize(self, x: Tensor) -> Tensor:
        return x if self.norm is None else self.norm(x)
