"""The memory of a DNC or a Turing machine: addressing, and links in time."""

from keras_attention.ops.memory import addressing, links

__all__ = ["addressing", "links"]
