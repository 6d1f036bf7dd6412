"""The attention family for Keras 3, on TensorFlow, JAX and torch."""

import sys

from keras_attention.backend_choice import choose_backend
from keras_attention.version import __version__

# `python -m keras_attention.explore` imports Keras in a second process, while the first
# one builds the page. Every other import registers all classes with Keras.
_EXPLORES = ("-m", "keras_attention.explore") in zip(sys.orig_argv, sys.orig_argv[1:])
if not (_EXPLORES and sys.argv[:1] == ["-m"]):  # while Python looks for the module
    choose_backend()
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
    from keras_attention.models.base import replayed

__all__ = [
    "__version__",
    "callbacks",
    "distribution",
    "layers",
    "losses",
    "models",
    "ops",
    "record_attention",
    "replayed",
    "samplers",
    "schedules",
    "with_attention",
]
