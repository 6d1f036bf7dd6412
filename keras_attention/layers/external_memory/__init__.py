"""Cells that read and write a memory: the DNC and the Neural Turing Machine."""

from keras_attention.layers.external_memory.dnc import DNC
from keras_attention.layers.external_memory.dnc_cell import DNCCell
from keras_attention.layers.external_memory.memory_cell import Trace
from keras_attention.layers.external_memory.ntm_cell import NTMCell

__all__ = ["DNC", "DNCCell", "NTMCell", "Trace"]
