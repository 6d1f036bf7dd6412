"""Random numbers of layers, which a replayed call draws anew."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import kernels

Tensor = Any


def uniform(shape: tuple, seed: keras.random.SeedGenerator) -> Tensor:
    """Returns float32 numbers in [0, 1)."""
    return kernels.random_input(
        lambda: keras.random.uniform(shape, dtype="float32", seed=seed)
    )


def normal(shape: tuple, seed: keras.random.SeedGenerator) -> Tensor:
    """Returns float32 numbers with mean 0 and variance 1."""
    return kernels.random_input(
        lambda: keras.random.normal(shape, dtype="float32", seed=seed)
    )


def dropout_mask(
    shape: tuple, rate: float, dtype: str, generator: Any, seed: int | None
) -> Tensor:
    """Returns 0 with the probability `rate`, and 1 / (1 − rate) otherwise."""

    def sample() -> Tensor:
        return keras.random.dropout(ops.ones(shape, dtype), rate, seed=generator)

    # On torch, Keras ignores a generator without a seed; a trace has the operation.
    return sample() if seed is None else kernels.random_input(sample)
