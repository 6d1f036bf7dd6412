"""Shared base of all layers: the attention protocol, masks, recording, configs."""

from keras_attention.layers.base.attention_layer import AttentionLayer
from keras_attention.layers.base.keep_mask import KeepMask
from keras_attention.layers.base.recording import record_attention, with_attention

__all__ = ["AttentionLayer", "KeepMask", "record_attention", "with_attention"]
