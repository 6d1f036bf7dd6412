"""The blocks of a Transformer."""

from keras_attention.layers.transformer.transformer_decoder_block import (
    TransformerDecoderBlock,
)
from keras_attention.layers.transformer.transformer_encoder_block import (
    TransformerEncoderBlock,
)

__all__ = ["TransformerDecoderBlock", "TransformerEncoderBlock"]
