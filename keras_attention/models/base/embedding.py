"""The two ends of a Transformer: tokens to vectors, and vectors to logits.

Shapes: B batch, T tokens, D width, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.layers import positions
from keras_attention.layers.base.arguments import fraction, positive
from keras_attention.layers.base.serialization import layer_config
from keras_attention.layers.positions.position_embedding import PositionEmbedding

Tensor = Any
ADDED = ("sinusoidal", "learned")
# What a model's `block` may hold; the rest are arguments of the model itself.
OF_BLOCKS = (
    "activation",
    "attention",
    "epsilon",
    "gated",
    "norm_first",
    "normalization",
)


class TokenEmbedding:
    """The layers with which a Transformer begins and ends; its graph shares them.

        xₜ      = dropout(√D E[yₜ] + pₜ)
        logitsₜ = E hₜ                       or E′ hₜ, where they are not tied

    This is no layer, so that a model's layers stay its own: they are `embedding`,
    `position`, `normalization` and `dropout`, of which the middle two may be None.

    Args:
        vocabulary_size: V, padding 0 included.
        dim: D.
        position: "sinusoidal", "learned", or a layer that is called as
            `SinePositionEncoding` is, of which a copy is made; None where each
            attention has its own.
        max_length: how many positions are learned.
        dropout: of what is embedded.
        scale: whether embeddings are multiplied by √D.
        stddev: with which they are drawn; by default 1 / √D.
        tied: whether logits are products with the embeddings themselves.
        normalization: a layer for what is embedded, or None.
        dtype: of the layers that are made here.
        name: of the embedding; in front of the other names.
    """

    def __init__(
        self,
        vocabulary_size: int,
        dim: int,
        position: Any = None,
        max_length: int = 1024,
        dropout: float = 0.0,
        scale: bool = True,
        stddev: float | None = None,
        tied: bool = True,
        normalization: Any = None,
        dtype: Any = None,
        name: str = "token_embedding",
    ) -> None:
        self.scale = dim**0.5 if scale else None
        self.embedding: Any = keras.layers.ReversibleEmbedding(
            vocabulary_size,
            dim,
            tie_weights=tied,
            # Without it, logits would be in the dtype of the weights.
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
            copy = layer_config(position)
            copy["config"] = {**copy["config"], "name": f"{name}_position"}
            self.position = keras.saving.deserialize_keras_object(copy)
        self.normalization: Any = normalization
        self.dropout = keras.layers.Dropout(
            fraction("dropout", dropout), dtype=dtype, name=f"{name}_dropout"
        )

    def __call__(self, tokens: Tensor, start: Any = 0) -> Tensor:
        """Tokens (B, T), the first at position `start`, as vectors (B, T, D)."""
        x = self.embedding(tokens)
        if self.scale is not None:
            x = x * self.scale
        if self.position is not None:
            x = x + self.position(x, start=start)
        if self.normalization is not None:
            x = self.normalization(x)
        return self.dropout(x)

    def step(self, token: Tensor, index: Any) -> Tensor:
        """One token of each row, (B,), at a position: (B, D)."""
        return self(token[:, None], start=index)[:, 0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (..., V) of hidden states (..., D)."""
        return self.embedding(hidden, reverse=True)


def split_position(position: Any) -> tuple[Any, Any]:
    """What of a model's `position` is added to embeddings, and what attentions get.

    Args:
        position: "sinusoidal" or "learned", a layer called as `SinePositionEncoding`
            is, anything that `MultiHeadAttention(position=…)` takes, or None.

    Returns:
        (added, attended), of which one at least is None.

    Raises:
        ValueError: if it is none of these.
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


def check_heads(dim: int, num_heads: int, arguments: dict[str, Any]) -> None:
    """Raises a ValueError if heads do not divide a model's width.

    Args:
        dim: D.
        num_heads: of each attention.
        arguments: what `block_arguments` returned.
    """
    own = (arguments.get("attention") or {}).get("key_dim")
    if own is None and dim % positive("num_heads", num_heads):
        raise ValueError(
            "`num_heads` must divide `dim`, unless the `attention` of `block` has a "
            f"'key_dim'. Received: num_heads={num_heads}, dim={dim}"
        )


def block_arguments(block: dict[str, Any] | None, attended: Any) -> dict[str, Any]:
    """The arguments of a model's blocks, with the position for their attentions.

    Args:
        block: what a model was given: further arguments of its blocks, or None.
        attended: what `split_position` found for the attentions, or None.

    Raises:
        ValueError: if a position is given in both places, or `block` is no dict of
            such arguments.
    """
    known = block is None or (isinstance(block, dict) and {*block} <= {*OF_BLOCKS})
    if not known:
        raise ValueError(
            "`block` must be a dict of further arguments of the blocks, among "
            f"{list(OF_BLOCKS)}, or None. Received: block={block!r}"
        )
    arguments = dict(block or {})
    if attended is None:
        return arguments
    attention = dict(arguments.get("attention") or {})
    if attention.get("position") is not None:
        raise ValueError(
            "`position` and `block` must not both give the attentions a position. "
            f"Received: position={attended!r}, block={block!r}"
        )
    return {**arguments, "attention": {**attention, "position": attended}}


def serialize(value: Any) -> Any:
    """A position or the arguments of blocks, which may hold layers, for a config."""
    if isinstance(value, dict):
        return {name: serialize(one) for name, one in value.items()}
    if isinstance(value, keras.layers.Layer):
        return layer_config(value)
    return keras.saving.serialize_keras_object(value) if callable(value) else value


def deserialize(config: dict[str, Any]) -> dict[str, Any]:
    """A model's config with the layers that `position` and `block` may hold."""
    found = {
        name: keras.saving.deserialize_keras_object(config[name])
        for name in ("position", "block")
        if isinstance(config.get(name), dict)
    }
    return {**config, **found}
