"""Keras layers: weights around the mathematics of `keras_attention.ops`."""

from keras_attention.layers.attention import (
    Attention,
    AttentionPooling,
    BahdanauAttention,
    CarryChoices,
    HardAttention,
    LuongAttention,
    MonotonicAttention,
)
from keras_attention.layers.base import AttentionLayer, record_attention, with_attention
from keras_attention.layers.external_memory import DNC, DNCCell, NTMCell, Trace
from keras_attention.layers.hopfield import Hopfield, HopfieldLayer, HopfieldPooling
from keras_attention.layers.memory_networks import (
    FactFinder,
    KeyValueHop,
    MemoryAge,
    MemoryHop,
    MemoryWriter,
    Segmenter,
    SentenceEncoder,
    SentenceFeatures,
    WordContexts,
    WordResponder,
)
from keras_attention.layers.multi_head import MultiHeadAttention
from keras_attention.layers.positions import (
    AlibiBias,
    PositionEmbedding,
    RelativePositionBias,
    RotaryEmbedding,
    SinePositionEncoding,
)
from keras_attention.layers.recurrent import AttentionRNN, ScheduledSampling
from keras_attention.layers.scores import (
    AdditiveScore,
    ConcatScore,
    CosineScore,
    DotScore,
    GeneralScore,
    LocationScore,
    RBFScore,
    Score,
)
from keras_attention.layers.transformer import (
    AdaptiveHalting,
    DepthRecurrence,
    TransformerDecoderBlock,
    TransformerEncoderBlock,
)

__all__ = [
    "DNC",
    "AdaptiveHalting",
    "AdditiveScore",
    "AlibiBias",
    "Attention",
    "AttentionLayer",
    "AttentionPooling",
    "AttentionRNN",
    "BahdanauAttention",
    "CarryChoices",
    "ConcatScore",
    "CosineScore",
    "DNCCell",
    "DepthRecurrence",
    "DotScore",
    "FactFinder",
    "GeneralScore",
    "HardAttention",
    "Hopfield",
    "HopfieldLayer",
    "HopfieldPooling",
    "KeyValueHop",
    "LocationScore",
    "LuongAttention",
    "MemoryAge",
    "MemoryHop",
    "MemoryWriter",
    "MonotonicAttention",
    "MultiHeadAttention",
    "NTMCell",
    "PositionEmbedding",
    "RBFScore",
    "RelativePositionBias",
    "RotaryEmbedding",
    "ScheduledSampling",
    "Score",
    "Segmenter",
    "SentenceEncoder",
    "SentenceFeatures",
    "SinePositionEncoding",
    "Trace",
    "TransformerDecoderBlock",
    "TransformerEncoderBlock",
    "WordContexts",
    "WordResponder",
    "record_attention",
    "with_attention",
]
