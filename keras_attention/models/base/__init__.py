"""Shared parts of models: arguments, generation, replayed calls, and vector indexes."""

from keras_attention.models.base.recorded_model import RecordedModel, recorded
from keras_attention.models.base.vector_index import CandidateIndex, VectorIndex

__all__ = ["CandidateIndex", "RecordedModel", "VectorIndex", "recorded"]
