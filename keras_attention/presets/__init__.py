"""Small trained networks with their preprocessors and cards."""

from keras_attention.presets.folder import write
from keras_attention.presets.preprocessor import Preprocessor
from keras_attention.presets.preprocessors import (
    BlankPreprocessor,
    CaptionPreprocessor,
    CharacterPreprocessor,
    ClassificationPreprocessor,
    CompletionPreprocessor,
    FactPreprocessor,
    RoutePreprocessor,
    StoryPreprocessor,
    TranslationPreprocessor,
)
from keras_attention.presets.shipped import card, load, names

__all__ = [
    "BlankPreprocessor",
    "CaptionPreprocessor",
    "CharacterPreprocessor",
    "ClassificationPreprocessor",
    "CompletionPreprocessor",
    "FactPreprocessor",
    "Preprocessor",
    "RoutePreprocessor",
    "StoryPreprocessor",
    "TranslationPreprocessor",
    "card",
    "load",
    "names",
    "write",
]
