"""Hopfield networks: energies, updates, theoretical bounds and chunked retrieval."""

from keras_attention.ops.hopfield import energy, retrieval, streaming

__all__ = ["energy", "retrieval", "streaming"]
