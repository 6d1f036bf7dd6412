"""Keras layers: weights around the mathematics of `keras_attention.ops`.

The public names are those that the `__init__` of each folder lists.
"""

from keras_attention.layers import (
    attention,
    base,
    external_memory,
    fast_weights,
    hopfield,
    memory_networks,
    multi_head,
    positions,
    recurrent,
    scores,
    transformer,
)
from keras_attention.layers.attention import *
from keras_attention.layers.base import *
from keras_attention.layers.external_memory import *
from keras_attention.layers.fast_weights import *
from keras_attention.layers.hopfield import *
from keras_attention.layers.memory_networks import *
from keras_attention.layers.multi_head import *
from keras_attention.layers.positions import *
from keras_attention.layers.recurrent import *
from keras_attention.layers.scores import *
from keras_attention.layers.transformer import *

__all__ = [
    *attention.__all__,
    *base.__all__,
    *external_memory.__all__,
    *fast_weights.__all__,
    *hopfield.__all__,
    *memory_networks.__all__,
    *multi_head.__all__,
    *positions.__all__,
    *recurrent.__all__,
    *scores.__all__,
    *transformer.__all__,
]
__dir__ = __all__.copy
