"""Hopfield networks: energies, updates, what the theory says, retrieval in chunks."""

from keras_attention.ops.hopfield import binary_energy, energy, retrieval, streaming

__all__ = ["binary_energy", "energy", "retrieval", "streaming"]
