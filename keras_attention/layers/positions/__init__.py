"""Position layers, for use on their own or inside `MultiHeadAttention`."""

from keras_attention.layers.positions.alibi_bias import AlibiBias
from keras_attention.layers.positions.names import NAMES, get
from keras_attention.layers.positions.position import Position, ScoreBias
from keras_attention.layers.positions.position_embedding import PositionEmbedding
from keras_attention.layers.positions.relative_position_bias import RelativePositionBias
from keras_attention.layers.positions.rotary_embedding import RotaryEmbedding
from keras_attention.layers.positions.sine_position_encoding import SinePositionEncoding

__all__ = [
    "NAMES",
    "AlibiBias",
    "Position",
    "PositionEmbedding",
    "RelativePositionBias",
    "RotaryEmbedding",
    "ScoreBias",
    "SinePositionEncoding",
    "get",
]
