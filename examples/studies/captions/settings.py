"""Settings that several parts of the benchmark share."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

ENCODER: dict[str, Any] = {
    "filters": [24, 48, 96],
    "width": 96,  # of the features
    "size": 48,  # of a canvas in pixels
    "canvases": 4000,  # of an epoch, new ones in each
    "epochs": 10,
    "batch_size": 32,
    "rate": 3e-3,
    "seed": 0,  # of the encoder and of the canvases, for all decoders
}
DECODER: dict[str, Any] = {
    "canvases": 12000,
    "embedding_dim": 128,
    "units": 128,
    "attention_units": 64,
    "cell": "gru",
    "order": "after",
    "epochs": 6,
    "batch_size": 64,
    "rate": 3e-3,
    "clipnorm": 1.0,
    "expected_rate": 0.5,  # of REINFORCE
    "weight": 0.03,  # of the gradient of REINFORCE
}
KINDS = ("soft", "straight_through", "reinforce")
TEST = 1000  # canvases


def percent(shares: np.ndarray) -> float:
    """Returns the mean in per cent."""
    return round(100 * float(np.mean(shares)), 2)


def compiled(
    model: keras.Model, settings: dict[str, Any], steps: int, loss: Any = None
) -> None:
    """Compiles with Adam and a learning rate that decays to 0."""
    rate = keras.optimizers.schedules.CosineDecay(settings["rate"], steps)
    loss = loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    clip = settings.get("clipnorm")
    model.compile(keras.optimizers.Adam(rate, global_clipnorm=clip), loss)
