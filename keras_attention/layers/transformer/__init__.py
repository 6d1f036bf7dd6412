"""The blocks of a Transformer."""

from keras_attention.layers.transformer.blocks import (
    TransformerDecoderBlock,
    TransformerEncoderBlock,
)
from keras_attention.layers.transformer.depth_recurrence import (
    AdaptiveHalting,
    DepthRecurrence,
)
from keras_attention.layers.transformer.induced_set_attention import InducedSetAttention

__all__ = [
    "AdaptiveHalting",
    "DepthRecurrence",
    "InducedSetAttention",
    "TransformerDecoderBlock",
    "TransformerEncoderBlock",
]
