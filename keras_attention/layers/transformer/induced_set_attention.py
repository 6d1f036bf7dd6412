"""Attention within a set through a few inducing points, linear in the set's size.

Shapes: B batch, S elements of a set, M inducing points, H heads, D model width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.arguments import pass_on_policies, positive
from keras_attention.layers.base.serialization import (
    Configured,
    argument_names,
    as_config,
    export,
)
from keras_attention.layers.transformer.blocks import (
    ORDERED,
    Block,
    TransformerEncoderBlock,
    copy_layer,
    is_layer,
)

Tensor = Any


@export
class InducedSetAttention(Configured, keras.layers.Layer):
    """Attention within a set through M learned inducing points: ISAB.

        MAB(x, y) = norm(h + W₂ f(W₁ h + b₁) + b₂),  h = norm(x + attention(x, y, y))
        output    = MAB(x, MAB(I, x))

    The points I (M, D) attend to the set, and the set attends to the result. The cost
    is M · S, not S² as with a `TransformerEncoderBlock`, which is MAB(x, x).
    `HopfieldPooling` behind a few of these layers completes the Set Transformer.

    Args:
        num_points: M, the number of inducing points.
        attention: the attention of the points to the set. The attention of the set to
            the points is a copy with separate weights.

    The other arguments are those of `TransformerEncoderBlock`.

    Call arguments:
        inputs: x, (B, S, D).
        mask: booleans (B, S), True for valid elements; defaults to the mask that the
            inputs carry. Masked elements do not affect other elements.
        return_attention_scores: whether to return the weights as well.
        training: whether to apply dropout.

    Returns:
        (B, S, D) in the compute dtype. With `return_attention_scores=True`, also a
        tuple of the weights of the points (B, H, M, S) and of the elements
        (B, H, S, M), without the H axis for a layer without heads. The output carries
        the mask of the inputs.

    Raises:
        ValueError: for a `num_points` below 1; an `attention` that depends on the order
            of the elements; and as in `TransformerEncoderBlock`.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import InducedSetAttention
    >>> sets = np.random.default_rng(0).normal(size=(2, 1000, 8)).astype("float32")
    >>> layer = InducedSetAttention(num_points=16, num_heads=4, intermediate_dim=32)
    >>> tuple(layer(sets).shape)
    (2, 1000, 8)

    Reference:
        Lee et al., "Set Transformer" (2019), equations 6, 7, 9 and 10.
    """

    float_inputs = ("inputs",)

    def __init__(
        self,
        num_points: int,
        num_heads: int | None = None,
        intermediate_dim: int = 2048,
        dropout: float = 0.0,
        activation: Any = "relu",
        gated: bool = False,
        norm_first: bool = False,
        normalization: str = "layer",
        epsilon: float = 1e-5,
        attention: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_points = positive("num_points", num_points)
        sizes = num_heads, intermediate_dim, dropout, activation, gated
        options = *sizes, norm_first, normalization, epsilon
        self.points_block = self._block("points_block", *options, attention)
        if is_layer(attention):
            attention = copy_layer(attention, attention.name)
        self.inputs_block = self._block("inputs_block", *options, attention)
        config = as_config(attention) or {}
        config = config.get("config", config)  # of a layer
        wrong = {name: config[name] for name in ORDERED if config.get(name)}
        if wrong:
            raise ValueError(
                f"`attention` must have none of {list(ORDERED)}: the elements of a set "
                f"have no order. Received: attention with {wrong}"
            )
        is_local = config.get("locality", "global") != "global"
        layer = as_attention(attention) if is_layer(attention) else None
        if layer is not None and (is_local or not layer.separates_texts):
            raise ValueError(
                "`attention` must not depend on the order of queries or keys: the "
                f"elements of a set have none. Received: attention={attention!r}"
            )
        for name in argument_names(Block):  # they are part of the config
            setattr(self, name, getattr(self.points_block, name))

    def _block(self, name: str, *options: Any) -> TransformerEncoderBlock:
        block = TransformerEncoderBlock(*options, dtype=self.dtype_policy, name=name)
        pass_on_policies(self, block)
        return block

    def build(self, inputs_shape: Any) -> None:
        self.inputs_block.build(inputs_shape)
        size = (self.num_points, inputs_shape[-1])
        self.points = self.add_weight(size, "glorot_uniform", name="points")
        self.points_block.build((inputs_shape[0], *size))
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        mask = self.inputs_block._check_mask("mask", mask, inputs)
        points = ops.cast(self.points, self.compute_dtype)
        points = ops.broadcast_to(points, (ops.shape(inputs)[0], *points.shape))
        first, last = self.points_block, self.inputs_block
        options = return_attention_scores, training
        points, to_set = _mab(first, points, inputs, *options, value_mask=mask)
        x, to_points = _mab(last, inputs, points, *options, query_mask=mask)
        return (x, (to_set, to_points)) if return_attention_scores else x

    def get_config(self) -> dict[str, Any]:
        attention = self.points_block.get_config()["attention"]
        return {**super().get_config(), "attention": attention}


def _mab(block: Any, x: Tensor, y: Tensor, *options: Any, **masks: Any) -> tuple:
    """Returns MAB(x, y) and its weights; pre-norm, x and y pass the same norm."""
    y = block._sublayer_input(block.self_attention_norm, y)
    x, weights = block._attend("self_attention", x, y, *options, **masks)
    return block._feed_forward(x, options[-1]), weights
