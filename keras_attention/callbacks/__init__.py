"""Callbacks that Keras does not provide."""

from keras_attention.callbacks.tensorboard import TensorBoardAttention
from keras_attention.callbacks.training import (
    Curriculum,
    HalveLearningRate,
    Lessons,
    LinearStart,
    ScheduledSamplingDecay,
    is_switch,
)

__all__ = [
    "Curriculum",
    "HalveLearningRate",
    "Lessons",
    "LinearStart",
    "ScheduledSamplingDecay",
    "TensorBoardAttention",
    "is_switch",
]
