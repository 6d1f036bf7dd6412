"""What the families stand on: the one protocol, recording, arguments, serialization."""

from keras_attention.layers.base.recording import record_attention

__all__ = ["record_attention"]
