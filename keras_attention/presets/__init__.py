"""Small trained networks, and how each was trained."""

from keras_attention.presets.folder import write
from keras_attention.presets.preprocessor import Preprocessor
from keras_attention.presets.preprocessors import (
    CharacterPreprocessor,
    FactPreprocessor,
    RoutePreprocessor,
    StoryPreprocessor,
)
from keras_attention.presets.shipped import card, load, names

__all__ = [
    "CharacterPreprocessor",
    "FactPreprocessor",
    "Preprocessor",
    "RoutePreprocessor",
    "StoryPreprocessor",
    "card",
    "load",
    "names",
    "write",
]
