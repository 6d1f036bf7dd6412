"""Small trained networks, and how each was trained."""

from keras_attention.presets.folder import write
from keras_attention.presets.preprocessor import Preprocessor
from keras_attention.presets.preprocessors import (
    BlankPreprocessor,
    CaptionPreprocessor,
    ClassificationPreprocessor,
    CompletionPreprocessor,
    StoryPreprocessor,
    TranslationPreprocessor,
)
from keras_attention.presets.shipped import card, load, names

__all__ = [
    "BlankPreprocessor",
    "CaptionPreprocessor",
    "ClassificationPreprocessor",
    "CompletionPreprocessor",
    "Preprocessor",
    "StoryPreprocessor",
    "TranslationPreprocessor",
    "card",
    "load",
    "names",
    "write",
]
