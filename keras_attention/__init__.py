"""The attention family for Keras 3, on TensorFlow, JAX and torch."""

from keras_attention.backend_choice import choose_backend
from keras_attention.version import __version__

choose_backend()  # before the first import of Keras

# The imports register all classes, so that Keras finds them in a saved file.
from keras_attention import (  # noqa: E402
    callbacks,
    distribution,
    layers,
    losses,
    models,
    ops,
    samplers,
    schedules,
)
from keras_attention.layers import record_attention, with_attention  # noqa: E402
from keras_attention.models.base import recorded  # noqa: E402

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
