"""Models over several devices: layouts for `keras.distribution`, on JAX."""

from keras_attention.distribution.layouts import distribute, layout_map
from keras_attention.distribution.report import Placement, Report, check

__all__ = ["Placement", "Report", "check", "distribute", "layout_map"]
