"""Hopfield networks."""

from keras_attention.models.hopfield.associative_memory import AssociativeMemory
from keras_attention.models.hopfield.hopfield_classifier import HopfieldClassifier
from keras_attention.models.hopfield.steps import Trajectory

__all__ = ["AssociativeMemory", "HopfieldClassifier", "Trajectory"]
