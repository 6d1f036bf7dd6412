"""Hopfield networks as layers: attention with repeated updates of the queries."""

from keras_attention.layers.hopfield.hopfield import Hopfield
from keras_attention.layers.hopfield.hopfield_layer import HopfieldLayer
from keras_attention.layers.hopfield.hopfield_pooling import HopfieldPooling

__all__ = ["Hopfield", "HopfieldLayer", "HopfieldPooling"]
