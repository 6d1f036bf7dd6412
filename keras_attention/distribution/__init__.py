"""Models over several devices: layouts for `keras.distribution`, on JAX."""

from keras_attention.distribution.layouts import (
    Placement,
    Report,
    check,
    distribute,
    layout_map,
)

__all__ = ["Placement", "Report", "check", "distribute", "layout_map"]
__dir__ = __all__.copy
