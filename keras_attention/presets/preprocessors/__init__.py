"""Preprocessors: a class for each kind of task."""

from keras_attention.presets.preprocessors.characters import CharacterPreprocessor
from keras_attention.presets.preprocessors.facts import FactPreprocessor
from keras_attention.presets.preprocessors.routes import RoutePreprocessor
from keras_attention.presets.preprocessors.stories import StoryPreprocessor

__all__ = [
    "CharacterPreprocessor",
    "FactPreprocessor",
    "RoutePreprocessor",
    "StoryPreprocessor",
]
