"""Networks with an external memory."""

from keras_attention.models.external_memory.dnc_network import DNCNetwork

__all__ = ["DNCNetwork"]
