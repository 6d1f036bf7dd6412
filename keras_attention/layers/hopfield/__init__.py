"""Hopfield networks as layers: attention with repeated updates of the queries."""

from keras_attention.layers.hopfield.hopfield import Hopfield
from keras_attention.layers.hopfield.learned import HopfieldLayer, HopfieldPooling

__all__ = ["Hopfield", "HopfieldLayer", "HopfieldPooling"]
