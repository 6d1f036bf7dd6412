"""The blocks of a Transformer."""

from keras_attention.layers.transformer.blocks import (
    TransformerDecoderBlock,
    TransformerEncoderBlock,
)
from keras_attention.layers.transformer.depth_recurrence import (
    AdaptiveHalting,
    DepthRecurrence,
)

__all__ = [
    "AdaptiveHalting",
    "DepthRecurrence",
    "TransformerDecoderBlock",
    "TransformerEncoderBlock",
]
