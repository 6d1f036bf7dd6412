"""Preprocessors: a class for each kind of task."""

from keras_attention.presets.preprocessors.blanks import BlankPreprocessor
from keras_attention.presets.preprocessors.captions import CaptionPreprocessor
from keras_attention.presets.preprocessors.characters import CharacterPreprocessor
from keras_attention.presets.preprocessors.classification import (
    ClassificationPreprocessor,
)
from keras_attention.presets.preprocessors.completion import CompletionPreprocessor
from keras_attention.presets.preprocessors.facts import FactPreprocessor
from keras_attention.presets.preprocessors.routes import RoutePreprocessor
from keras_attention.presets.preprocessors.stories import StoryPreprocessor
from keras_attention.presets.preprocessors.translation import TranslationPreprocessor

__all__ = [
    "BlankPreprocessor",
    "CaptionPreprocessor",
    "CharacterPreprocessor",
    "ClassificationPreprocessor",
    "CompletionPreprocessor",
    "FactPreprocessor",
    "RoutePreprocessor",
    "StoryPreprocessor",
    "TranslationPreprocessor",
]
