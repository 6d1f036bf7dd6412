"""Memory networks."""

from keras_attention.models.memory_networks.key_value_memnn import KeyValueMemNN
from keras_attention.models.memory_networks.memn2n import MemN2N
from keras_attention.models.memory_networks.memnn import MemNN

__all__ = ["KeyValueMemNN", "MemN2N", "MemNN"]
