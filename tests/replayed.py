"""What the tests of replayed calls and of CUDA graphs share."""

import keras
import numpy as np
import pytest
from keras import layers

torch = pytest.importorskip("torch")

B, D, U = 2, 7, 11


def wave(*shape, start=0):
    numbers = np.sin(1.0 + start + np.arange(np.prod(shape)))
    return torch.as_tensor(numbers.reshape(shape).astype("float32"))


def dense_model():
    model = keras.Sequential([layers.Dense(U, activation="relu"), layers.Dense(D)])
    model(wave(B, D))
    return model


def warmed(fast, *args, **kwargs):
    """A replayed model after the calls that trace this signature."""
    for _ in range(2):
        fast(*args, **kwargs)
    return fast
