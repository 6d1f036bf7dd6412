"""Attention with one head: a score, a normalizer and an optional state."""

from keras_attention.layers.attention.attention import Attention
from keras_attention.layers.attention.attention_pooling import AttentionPooling
from keras_attention.layers.attention.bahdanau_attention import BahdanauAttention
from keras_attention.layers.attention.carry_choices import CarryChoices
from keras_attention.layers.attention.hard_attention import HardAttention
from keras_attention.layers.attention.luong_attention import LuongAttention
from keras_attention.layers.attention.monotonic_attention import MonotonicAttention

__all__ = [
    "Attention",
    "AttentionPooling",
    "BahdanauAttention",
    "CarryChoices",
    "HardAttention",
    "LuongAttention",
    "MonotonicAttention",
]
