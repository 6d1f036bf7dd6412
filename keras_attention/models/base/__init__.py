"""Shared parts of models: arguments, generation, and recorded calls."""

from keras_attention.models.base.recorded_model import RecordedModel, recorded

__all__ = ["RecordedModel", "recorded"]
