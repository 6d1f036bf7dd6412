"""Real data sets and simulators, as Python objects and NumPy arrays.

A loader searches for its file in this order: the folder named by the environment
variable `KERAS_ATTENTION_DATA`, Keras' cache (`~/.keras/datasets`, or `datasets` in the
folder named by `KERAS_HOME`), and the official address. `DataNotFoundError` lists what
was tried and what to try next.
"""

from keras_attention.datasets import (
    algorithms,
    babi,
    bags,
    blocks,
    canvases,
    dates,
    flickr8k,
    graphs,
    mnist,
    movielens,
    ratings,
    recall,
    sentences,
    simulated_world,
    translation,
    triples,
    words,
)
from keras_attention.datasets.files import (
    DamagedDataError,
    DataNotFoundError,
    UnsafeArchiveError,
)

__all__ = [
    "DamagedDataError",
    "DataNotFoundError",
    "UnsafeArchiveError",
    "algorithms",
    "babi",
    "bags",
    "blocks",
    "canvases",
    "dates",
    "flickr8k",
    "graphs",
    "mnist",
    "movielens",
    "ratings",
    "recall",
    "sentences",
    "simulated_world",
    "translation",
    "triples",
    "words",
]
__dir__ = __all__.copy
