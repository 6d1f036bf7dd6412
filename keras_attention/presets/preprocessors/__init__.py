"""Preprocessors: a class for each kind of task."""

from keras_attention.presets.preprocessors.stories import StoryPreprocessor

__all__ = ["StoryPreprocessor"]
