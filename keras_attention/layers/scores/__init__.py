"""Score layers: the similarity of queries and keys."""

from keras_attention.layers.scores.additive_score import AdditiveScore
from keras_attention.layers.scores.concat_score import ConcatScore
from keras_attention.layers.scores.cosine_score import CosineScore
from keras_attention.layers.scores.dot_score import DotScore
from keras_attention.layers.scores.general_score import GeneralScore
from keras_attention.layers.scores.location_score import LocationScore
from keras_attention.layers.scores.names import get
from keras_attention.layers.scores.rbf_score import RBFScore
from keras_attention.layers.scores.score import Score, dense

__all__ = [
    "AdditiveScore",
    "ConcatScore",
    "CosineScore",
    "DotScore",
    "GeneralScore",
    "LocationScore",
    "RBFScore",
    "Score",
    "dense",
    "get",
]
