"""Hopfield networks: energies, updates, theoretical bounds and chunked retrieval."""

from keras_attention.ops.hopfield import binary_energy, energy, retrieval, streaming

__all__ = ["binary_energy", "energy", "retrieval", "streaming"]
