"""The attention family for Keras 3, on TensorFlow, JAX and torch."""

import sys

from keras_attention.version import __version__

# `python -m keras_attention.explore` imports Keras in a second process, while the first
# one builds the page. Every other import registers all classes with Keras.
if not (sys.argv[:1] == ["-m"] and "keras_attention.explore" in sys.orig_argv):
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
