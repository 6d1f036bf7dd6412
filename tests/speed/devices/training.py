"""Trains a model of a case on one device or on several."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from keras_attention.distribution import distribute, layout_map
from speed.devices.cases import B, Case, data_of, loss_of

STEPS = 5
MESH = (2, 4)


def single(model: keras.Model) -> None:
    """Uses one device."""


def data_parallel(model: keras.Model) -> None:
    """Splits batches over all devices."""
    parallel = keras.distribution.DataParallel(auto_shard_dataset=False)
    keras.distribution.set_distribution(parallel)
    distribute(model)


def model_parallel(model: keras.Model) -> None:
    """Splits batches over 2 groups of devices, and weights over the 4 of each."""
    mesh = keras.distribution.DeviceMesh(MESH, ("batch", "model"))
    parallel = keras.distribution.ModelParallel(
        layout_map=layout_map(model, mesh), auto_shard_dataset=False
    )
    keras.distribution.set_distribution(parallel)
    distribute(model)


MODES = {
    "one device": single,
    "DataParallel": data_parallel,
    "ModelParallel": model_parallel,
}


def compiled(case: Case, mode: str) -> keras.Model:
    """Returns a model with the first weights of a seed, on the devices of a mode."""
    keras.distribution.set_distribution(None)
    keras.utils.set_random_seed(0)
    model = case.make()
    model.compile(keras.optimizers.Adam(1e-2), loss_of(case))
    MODES[mode](model)
    return model


def output_shape(model: keras.Model, inputs: Any) -> tuple:
    """Returns the shape of a model's output, or () if it has several."""
    spec = keras.tree.map_structure(
        lambda x: keras.KerasTensor(x.shape, str(x.dtype)), inputs
    )
    output = model.compute_output_spec(spec)
    return () if isinstance(output, dict) else tuple(output.shape)


def losses(case: Case, mode: str, rank: int = 0, processes: int = 1) -> np.ndarray:
    """Returns the loss before each of 5 training steps.

    Args:
        case: the model, its data and its loss.
        mode: a key of `MODES`.
        rank: the number of this process. It trains on its part of each batch.
        processes: how many processes train.
    """
    model = compiled(case, mode)
    inputs = case.inputs(np.random.default_rng(0))
    x, y = data_of(case, output_shape(model, inputs))
    size = B // processes
    part = slice(rank * size, (rank + 1) * size)
    x, y = keras.tree.map_structure(lambda array: array[part], (x, y))
    history = model.fit(x, y, batch_size=size, epochs=STEPS, shuffle=False, verbose=0)
    keras.distribution.set_distribution(None)
    return np.array(history.history["loss"])
