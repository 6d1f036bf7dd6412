"""Pictures and tables of attention weights, from NumPy arrays and words."""

from keras_attention.visualization.capacity import plot_capacity
from keras_attention.visualization.energy import plot_energy
from keras_attention.visualization.heads import plot_heads
from keras_attention.visualization.memory import plot_memory
from keras_attention.visualization.plots import (
    hops_table,
    plot_alignment,
    plot_hops,
    plot_image_attention,
)

__all__ = [
    "hops_table",
    "plot_alignment",
    "plot_capacity",
    "plot_energy",
    "plot_heads",
    "plot_hops",
    "plot_image_attention",
    "plot_memory",
]
