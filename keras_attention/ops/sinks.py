"""Attention sinks: :func:`sink_attention`."""

from keras_attention.ops.heads import sink_attention

__all__ = ["sink_attention"]
