"""The backend, its device, and the clock of a time budget."""

from __future__ import annotations

import functools
import importlib
import time

import keras


def device(backend: str) -> str:
    """Returns the kind of device that `backend` computes on: "cpu", "gpu", …"""
    module = importlib.import_module(backend)
    if backend == "jax":
        return str(module.default_backend())
    if backend == "torch":
        if module.cuda.is_available():
            return "gpu"
        return "mps" if module.backends.mps.is_available() else "cpu"
    return "gpu" if module.config.list_physical_devices("GPU") else "cpu"


def own_backend() -> str:
    """Returns the name of Keras' backend."""
    return str(keras.config.backend())


@functools.cache
def own_device() -> str:
    """Returns the kind of device that Keras' backend computes on."""
    backend = own_backend()
    return device(backend) if backend in ("jax", "torch", "tensorflow") else "cpu"


def budget_clock() -> float:
    """Returns the seconds of the clock that measures a time budget.

    It is the CPU time of this process. On an accelerator it is the elapsed time, since
    the process hardly computes there.
    """
    return time.process_time() if own_device() == "cpu" else time.perf_counter()
