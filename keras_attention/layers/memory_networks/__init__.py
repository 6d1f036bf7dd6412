"""Layers of memory networks: sentence encoders, fact finders and memory hops."""

from keras_attention.layers.memory_networks.fact_finder import FactFinder
from keras_attention.layers.memory_networks.key_value_hop import KeyValueHop
from keras_attention.layers.memory_networks.memory_age import MemoryAge
from keras_attention.layers.memory_networks.memory_hop import MemoryHop
from keras_attention.layers.memory_networks.memory_writer import MemoryWriter
from keras_attention.layers.memory_networks.segmenter import Segmenter
from keras_attention.layers.memory_networks.sentence_encoder import SentenceEncoder
from keras_attention.layers.memory_networks.sentence_features import SentenceFeatures
from keras_attention.layers.memory_networks.word_contexts import WordContexts
from keras_attention.layers.memory_networks.word_responder import WordResponder

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
