"""Callbacks that Keras does not provide."""

from keras_attention.callbacks.curriculum import Curriculum
from keras_attention.callbacks.halve_learning_rate import HalveLearningRate
from keras_attention.callbacks.lessons import Lessons
from keras_attention.callbacks.linear_start import LinearStart, is_switch
from keras_attention.callbacks.scheduled_sampling_decay import ScheduledSamplingDecay
from keras_attention.callbacks.tensorboard_attention import TensorBoardAttention

__all__ = [
    "Curriculum",
    "HalveLearningRate",
    "Lessons",
    "LinearStart",
    "ScheduledSamplingDecay",
    "TensorBoardAttention",
    "is_switch",
]
