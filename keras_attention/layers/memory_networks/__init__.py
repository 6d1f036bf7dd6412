"""Layers of memory networks: sentence encoders, fact finders and memory hops."""

from keras_attention.layers.memory_networks.memnn import FactFinder, WordResponder
from keras_attention.layers.memory_networks.memory_hop import (
    KeyValueHop,
    MemoryAge,
    MemoryHop,
)
from keras_attention.layers.memory_networks.segmenter import Segmenter
from keras_attention.layers.memory_networks.sentence_encoder import SentenceEncoder
from keras_attention.layers.memory_networks.sentence_features import (
    MemoryWriter,
    SentenceFeatures,
    WordContexts,
)

__all__ = [
    "FactFinder",
    "KeyValueHop",
    "MemoryAge",
    "MemoryHop",
    "MemoryWriter",
    "Segmenter",
    "SentenceEncoder",
    "SentenceFeatures",
    "WordContexts",
    "WordResponder",
]
