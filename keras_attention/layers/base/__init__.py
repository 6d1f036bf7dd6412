"""Shared base of all layers: the attention protocol, recording and serialization."""

from keras_attention.layers.base.attention_layer import AttentionLayer
from keras_attention.layers.base.recording import record_attention, with_attention

__all__ = ["AttentionLayer", "record_attention", "with_attention"]
