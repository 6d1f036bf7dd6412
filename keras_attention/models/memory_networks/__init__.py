"""Memory networks."""

from keras_attention.models.memory_networks.hashes import ClusterHash, WordHash
from keras_attention.models.memory_networks.hop_reader import HopAnswers, HopReader
from keras_attention.models.memory_networks.key_value_memnn import KeyValueMemNN
from keras_attention.models.memory_networks.large_memory import Answers, LargeMemory
from keras_attention.models.memory_networks.memn2n import MemN2N
from keras_attention.models.memory_networks.memnn import MemNN

__all__ = [
    "Answers",
    "ClusterHash",
    "HopAnswers",
    "HopReader",
    "KeyValueMemNN",
    "LargeMemory",
    "MemN2N",
    "MemNN",
    "WordHash",
]
