"""The arguments that all Transformers share, and the parts that they describe."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.layers import positions
from keras_attention.layers.base.adapter import as_attention, check_learns_by_output
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.transformer.blocks import (
    TransformerDecoderBlock,
    TransformerEncoderBlock,
    copy_layer,
)
from keras_attention.models.base.configured_model import check_sizes
from keras_attention.models.transformer.backbone import TokenEmbedding

ADDED = ("sinusoidal", "learned")
SIZES = (
    "vocabulary_size",
    "source_vocabulary_size",
    "target_vocabulary_size",
    "num_classes",
    "num_layers",
    "dim",
    "max_length",
)
# The allowed keys of a model's `block`. All others are arguments of the model.
OF_BLOCKS = (
    "activation",
    "attention",
    "epsilon",
    "gated",
    "norm_first",
    "normalization",
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
        check_sizes(**{name: arguments[name] for name in SIZES if name in arguments})
        dim, num_heads = arguments["dim"], arguments["num_heads"]
        position, block = arguments.get("position"), arguments.get("block")
        self.position, attention_position = split_position(position)
        options = {**defaults, **block_arguments(block, attention_position)}
        self._attention = attention = arguments.get("attention")
        self._cross_attention = arguments.get("cross_attention")
        for name in ("attention", "cross_attention"):
            if arguments.get(name) is not None:
                check_layer(name, arguments[name])
        if attention is None:
            num_heads = default_heads if num_heads is None else num_heads
            check_heads(dim, num_heads, options)
        else:
            check_alone(num_heads, position, attention_position, block)
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
        return TransformerEncoderBlock(**self._copies(), name=name)

    def decoder(self, name: str) -> TransformerDecoderBlock:
        """Returns a new decoder block, which attends to a memory."""
        arguments = self._copies()
        if self._cross_attention is not None:
            arguments["cross_attention"] = copy_layer(
                self._cross_attention, "cross_attention"
            )
        return TransformerDecoderBlock(**arguments, name=name)

    def _copies(self) -> dict[str, Any]:
        """Returns the arguments of one block, with a new copy of the attention."""
        if self._attention is None:
            return dict(self._arguments)
        copy = copy_layer(self._attention, "self_attention")
        return {**self._arguments, "attention": copy}


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
            f"{list(OF_BLOCKS)}, or None. Received: block={block!r}"
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
    num_heads: Any, position: Any, attention_position: Any, block: dict[str, Any] | None
) -> None:
    """Raises a ValueError for arguments that conflict with a given attention layer."""
    if num_heads is not None:
        raise ValueError(
            "`num_heads` must be None where `attention` is a layer, which has heads of "
            f"its own. Received: num_heads={num_heads!r}"
        )
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
