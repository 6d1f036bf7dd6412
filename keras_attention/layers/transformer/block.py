"""What the blocks of a Transformer share: residuals, normalization, the MLP.

Shapes: B batch, T queries, D model width, F width inside the MLP.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import keras

from keras_attention.layers.base.arguments import (
    fraction,
    hand_down,
    policy_config,
    policy_of,
    positive,
)
from keras_attention.layers.base.serialization import layer_config
from keras_attention.layers.multi_head.heads import as_boolean
from keras_attention.layers.multi_head.multi_head_attention import MultiHeadAttention
from keras_attention.numerics import masks

Tensor = Any
NORMALIZATIONS = {
    "layer": keras.layers.LayerNormalization,
    "rms": keras.layers.RMSNormalization,
}
BY_BLOCK = ("self", "num_heads", "output_shape", "attention_axes", "kwargs")
# What a block leaves to its `attention`.
KNOWN = [
    n for n in signature(MultiHeadAttention.__init__).parameters if n not in BY_BLOCK
]
IN_ORDER = ("position", "sliding_window")  # what only self-attention has


class Block(keras.layers.Layer):
    """Sublayers with residuals around them. Abstract.

        post-norm:  x ← norm(x + dropout(sublayer(x)))
        pre-norm:   x ← x + dropout(sublayer(norm(x)))

    The arguments are described in `TransformerEncoderBlock`.
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        dropout: float = 0.0,
        activation: Any = "relu",
        gated: bool = False,
        norm_first: bool = False,
        normalization: str = "layer",
        epsilon: float = 1e-5,
        attention: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads = positive("num_heads", num_heads)
        self.intermediate_dim = positive("intermediate_dim", intermediate_dim)
        fraction("dropout", dropout)
        if normalization not in NORMALIZATIONS:
            raise ValueError(
                f"`normalization` must be one of {sorted(NORMALIZATIONS)}. "
                f"Received: normalization={normalization!r}"
            )
        unknown = sorted({*(attention or {})} - {*KNOWN})
        if unknown:
            raise ValueError(
                "`attention` must be a dict of further arguments of the block's "
                f"`MultiHeadAttention`, among {KNOWN}. Received: attention with "
                f"{unknown}"
            )
        self.dropout = dropout
        self.activation = keras.activations.get(activation)
        self.gated = gated
        self.norm_first = norm_first
        self.normalization = normalization
        self.epsilon = epsilon
        # As configs, so that each attention makes objects of its own from them.
        self.attention = {k: _config(v) for k, v in (attention or {}).items()}
        # Wrong arguments are to be found now, not when the block is built.
        self._attention("self_attention", self.num_heads)
        self._dropout_layer = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def _build_feedforward(self, shape: tuple) -> None:
        """The MLP: D → F → D."""
        self.feedforward_norm = self._norm("feedforward_norm", shape)
        inside = (*shape[:-1], self.intermediate_dim)
        self.feedforward_in = self._dense("feedforward_in", shape, inside[-1], True)
        self.feedforward_gate = None
        if self.gated:
            self.feedforward_gate = self._dense("feedforward_gate", shape, inside[-1])
        self.feedforward_out = self._dense("feedforward_out", inside, shape[-1])

    def _width(self, shape: Any) -> tuple:
        """The shape of what goes through the block, held to its heads."""
        shape = tuple(shape)
        if len(shape) != 3:
            raise ValueError(
                "`inputs` must have rank 3, (batch, length, width). "
                f"Received: inputs.shape={shape}"
            )
        if shape[-1] % self.num_heads and "key_dim" not in self.attention:
            raise ValueError(
                "`num_heads` must divide the width of the inputs, unless `attention` "
                f"holds 'key_dim'. Received: num_heads={self.num_heads}, "
                f"inputs.shape={shape}"
            )
        return shape

    def _attention(self, name: str, width: int) -> MultiHeadAttention:
        """One more attention for inputs of this width, with a position of its own."""
        more = {"key_dim": max(1, width // self.num_heads), **self.attention}
        if name != "self_attention":
            more = {k: v for k, v in more.items() if k not in IN_ORDER}
        attention = MultiHeadAttention(
            self.num_heads, **more, dtype=self.dtype_policy, name=name
        )
        hand_down(self, attention)
        return attention

    def _norm(self, name: str, shape: tuple) -> keras.layers.Layer:
        norm = norm_like(self, name)
        norm.build(shape)
        return norm

    def _dense(
        self, name: str, shape: tuple, units: int, active: bool = False
    ) -> keras.layers.Dense:
        dense = keras.layers.Dense(
            units,
            activation=self.activation if active else None,
            dtype=policy_of(self, name),
            name=name,
        )
        dense.build(shape)
        return dense

    def _given(self, name: str, mask: Any, inputs: Tensor) -> Tensor | None:
        """A mask that the block was given, held to its shape under its own name."""
        return masks.check(name, as_boolean(name, mask), tuple(inputs.shape[:-1]))

    def _before(self, norm: Any, x: Tensor) -> Tensor:
        """What a sublayer reads."""
        return norm(x) if self.norm_first else x

    def _behind(
        self, norm: Any, x: Tensor, found: Tensor, training: bool | None
    ) -> Tensor:
        """The residual around a sublayer that has found this."""
        x = x + self._dropout_layer(found, training=training)
        return x if self.norm_first else norm(x)

    def _feed_forward(self, x: Tensor, training: bool | None = None) -> Tensor:
        """W₂ f(W₁ x), or W₂ (f(W₁ x) ⊙ W₃ x), with a residual: (B, T, D)."""
        read = self._before(self.feedforward_norm, x)
        inside = self.feedforward_in(read)  # (B, T, F)
        if self.feedforward_gate is not None:
            inside = inside * self.feedforward_gate(read)
        found = self.feedforward_out(inside)
        return self._behind(self.feedforward_norm, x, found, training)

    def compute_output_shape(self, inputs_shape: Any, *others: Any) -> tuple:
        return tuple(inputs_shape)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "dtype": policy_config(self),
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "activation": keras.activations.serialize(self.activation),
            "gated": self.gated,
            "norm_first": self.norm_first,
            "normalization": self.normalization,
            "epsilon": self.epsilon,
            "attention": dict(self.attention),
        }


def norm_like(block: Block, name: str) -> keras.layers.Layer:
    """One more normalization of the kind that a block has, not built yet."""
    norm = NORMALIZATIONS[block.normalization](
        epsilon=block.epsilon, dtype=block.dtype_policy, name=name
    )
    norm.supports_masking = True  # that of the root mean square would warn
    return norm


def _config(value: Any) -> Any:
    """What stands for an argument in a config."""
    if isinstance(value, keras.layers.Layer):
        return layer_config(value)
    if value is None or isinstance(value, (bool, int, float, str, dict)):
        return value
    return keras.saving.serialize_keras_object(value)
