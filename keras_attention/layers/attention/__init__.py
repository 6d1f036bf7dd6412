"""Attention with one head: a score, a normalizer and an optional state."""

from keras_attention.layers.attention.attention import (
    Attention,
    BahdanauAttention,
    LuongAttention,
)
from keras_attention.layers.attention.attention_pooling import AttentionPooling
from keras_attention.layers.attention.hard_attention import (
    CarryChoices,
    HardAttention,
    MonotonicAttention,
)

__all__ = [
    "Attention",
    "AttentionPooling",
    "BahdanauAttention",
    "CarryChoices",
    "HardAttention",
    "LuongAttention",
    "MonotonicAttention",
]
