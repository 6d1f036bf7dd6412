"""Keras layers: weights around the mathematics of `keras_attention.ops`."""

from keras_attention.layers.attention import Attention
from keras_attention.layers.attention_rnn import AttentionRNN
from keras_attention.layers.bahdanau import BahdanauAttention
from keras_attention.layers.blocks import (
    TransformerDecoderBlock,
    TransformerEncoderBlock,
)
from keras_attention.layers.dnc import DNC
from keras_attention.layers.dnc_cell import DNCCell
from keras_attention.layers.hard import CarryChoices, HardAttention
from keras_attention.layers.hopfield import Hopfield
from keras_attention.layers.hopfield_lookup import HopfieldLayer
from keras_attention.layers.hopfield_pooling import HopfieldPooling
from keras_attention.layers.key_value import KeyValueHop
from keras_attention.layers.location import LocationScore
from keras_attention.layers.luong import LuongAttention
from keras_attention.layers.memnn import FactFinder, WordResponder
from keras_attention.layers.memory import MemoryAge, MemoryHop, SentenceEncoder
from keras_attention.layers.monotonic import MonotonicAttention
from keras_attention.layers.multi_head import MultiHeadAttention
from keras_attention.layers.ntm_cell import NTMCell
from keras_attention.layers.position_embedding import PositionEmbedding
from keras_attention.layers.positions import (
    AlibiBias,
    RelativePositionBias,
    RotaryEmbedding,
    SinePositionEncoding,
)
from keras_attention.layers.recording import record_attention
from keras_attention.layers.records import MemoryWriter, SentenceFeatures
from keras_attention.layers.scheduled import ScheduledSampling
from keras_attention.layers.scores import (
    AdditiveScore,
    ConcatScore,
    CosineScore,
    DotScore,
    GeneralScore,
    RBFScore,
    Score,
)

__all__ = [
    "DNC",
    "AdditiveScore",
    "AlibiBias",
    "Attention",
    "AttentionRNN",
    "BahdanauAttention",
    "CarryChoices",
    "ConcatScore",
    "CosineScore",
    "DNCCell",
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
    "SentenceEncoder",
    "SentenceFeatures",
    "SinePositionEncoding",
    "TransformerDecoderBlock",
    "TransformerEncoderBlock",
    "WordResponder",
    "record_attention",
]
