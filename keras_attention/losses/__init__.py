"""Losses that Keras does not provide."""

from keras_attention.losses.coverage_loss import CoverageLoss
from keras_attention.losses.negative_sampling_loss import NegativeSamplingLoss
from keras_attention.losses.reinforce_loss import ReinforceLoss
from keras_attention.losses.smoothed_crossentropy import SmoothedCrossentropy
from keras_attention.losses.supporting_fact_loss import SupportingFactLoss

__all__ = [
    "CoverageLoss",
    "NegativeSamplingLoss",
    "ReinforceLoss",
    "SmoothedCrossentropy",
    "SupportingFactLoss",
]
