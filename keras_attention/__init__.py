"""The attention family for Keras 3, on TensorFlow, JAX and torch."""

from keras_attention import (
    callbacks,
    distribution,
    layers,
    losses,
    models,
    ops,
    samplers,
    schedules,
)
from keras_attention.layers import record_attention, with_attention
from keras_attention.models.base import recorded
from keras_attention.version import __version__

__all__ = [
    "__version__",
    "callbacks",
    "distribution",
    "layers",
    "losses",
    "models",
    "ops",
    "record_attention",
    "recorded",
    "samplers",
    "schedules",
    "with_attention",
]
