"""The memory of a DNC or a Neural Turing Machine: addressing and temporal links."""

from keras_attention.ops.memory import addressing, links

__all__ = ["addressing", "links"]
