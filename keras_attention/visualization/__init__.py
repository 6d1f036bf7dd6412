"""Figures and tables of attention weights from NumPy arrays and words."""

from keras_attention.visualization.energy import plot_energy
from keras_attention.visualization.families import plot_family
from keras_attention.visualization.heads import plot_heads
from keras_attention.visualization.html import (
    View,
    alignment_view,
    energy_view,
    heads_view,
    hops_view,
    memory_view,
    softmax_view,
    to_html,
)
from keras_attention.visualization.lookups import plot_lookups
from keras_attention.visualization.memory import plot_memory
from keras_attention.visualization.plots import (
    hops_table,
    plot_alignment,
    plot_hops,
    plot_image_attention,
)
from keras_attention.visualization.routes import plot_route
from keras_attention.visualization.vectors import plot_vectors

__all__ = [
    "View",
    "alignment_view",
    "energy_view",
    "heads_view",
    "hops_table",
    "hops_view",
    "memory_view",
    "plot_alignment",
    "plot_energy",
    "plot_family",
    "plot_heads",
    "plot_hops",
    "plot_image_attention",
    "plot_lookups",
    "plot_memory",
    "plot_route",
    "plot_vectors",
    "softmax_view",
    "to_html",
]
__dir__ = __all__.copy
