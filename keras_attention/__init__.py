"""The attention family for Keras 3, on TensorFlow, JAX and torch.

`datasets`, `presets`, `text` and `visualization` are imported when they are used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from keras_attention.backend_choice import choose_backend
from keras_attention.version import __version__

choose_backend()  # before the first import of Keras

# The imports register all classes, so that Keras finds them in a saved file.
from keras_attention import (  # noqa: E402
    callbacks,
    distribution,
    layers,
    losses,
    masks,
    models,
    ops,
    samplers,
    schedules,
)
from keras_attention.layers import record_attention, with_attention  # noqa: E402
from keras_attention.models.base import recorded  # noqa: E402

if TYPE_CHECKING:
    from keras_attention import datasets, presets, text, visualization  # noqa: F401
else:

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")


__all__ = [
    "__version__",
    "callbacks",
    "distribution",
    "layers",
    "losses",
    "masks",
    "models",
    "ops",
    "record_attention",
    "recorded",
    "samplers",
    "schedules",
    "with_attention",
]
_LAZY = ["datasets", "presets", "text", "visualization"]  # `import *` leaves these out


def __dir__() -> list[str]:  # what `dir` and completion list
    return sorted([*__all__, *_LAZY])
