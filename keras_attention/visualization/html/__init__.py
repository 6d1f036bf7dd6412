"""Attention as interactive HTML: views, and pages that open from disk."""

from keras_attention.visualization.html.page import View, to_html
from keras_attention.visualization.html.views import (
    alignment_view,
    energy_view,
    heads_view,
    hops_view,
    memory_view,
    softmax_view,
)

__all__ = [
    "View",
    "alignment_view",
    "energy_view",
    "heads_view",
    "hops_view",
    "memory_view",
    "softmax_view",
    "to_html",
]
