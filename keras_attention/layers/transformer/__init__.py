"""The blocks of a Transformer."""

from keras_attention.layers.transformer.adaptive_halting import AdaptiveHalting
from keras_attention.layers.transformer.depth_recurrence import DepthRecurrence
from keras_attention.layers.transformer.transformer_decoder_block import (
    TransformerDecoderBlock,
)
from keras_attention.layers.transformer.transformer_encoder_block import (
    TransformerEncoderBlock,
)

__all__ = [
    "AdaptiveHalting",
    "DepthRecurrence",
    "TransformerDecoderBlock",
    "TransformerEncoderBlock",
]
