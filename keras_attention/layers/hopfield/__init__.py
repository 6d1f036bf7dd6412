"""Hopfield networks as layers: attention that is repeated on its keys."""

from keras_attention.layers.hopfield.hopfield import Hopfield
from keras_attention.layers.hopfield.hopfield_layer import HopfieldLayer
from keras_attention.layers.hopfield.hopfield_pooling import HopfieldPooling

__all__ = ["Hopfield", "HopfieldLayer", "HopfieldPooling"]
