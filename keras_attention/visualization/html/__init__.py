"""Attention as interactive HTML: views, and pages that open from disk."""

from keras_attention.visualization.html.alignment import alignment_view
from keras_attention.visualization.html.energy import energy_view
from keras_attention.visualization.html.heads import heads_view
from keras_attention.visualization.html.hops import hops_view
from keras_attention.visualization.html.memory import memory_view
from keras_attention.visualization.html.page import to_html
from keras_attention.visualization.html.softmax import softmax_view
from keras_attention.visualization.html.view import View

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
