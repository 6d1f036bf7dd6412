"""Placement on backends that `keras.distribution` does not serve."""

from __future__ import annotations

from typing import Any, NoReturn

import keras

SPLITS_TENSORS = False
# What to use instead, by backend.
INSTEAD = {
    "tensorflow": "`tf.distribute` splits batches on TensorFlow",
    "torch": "`torch.nn.parallel.DistributedDataParallel` splits batches on torch",
}


def check_distribution() -> None:
    """Raises a RuntimeError: Keras splits weights only on JAX."""
    backend = keras.config.backend()
    instead = f"; {INSTEAD[backend]}" if backend in INSTEAD else ""
    raise RuntimeError(
        "`keras_attention.distribution` needs the JAX backend, the only one on which "
        f"`keras.distribution` splits weights{instead}. "
        f"Received: KERAS_BACKEND={backend!r}"
    )


def place(variable: Any, layout: Any) -> None:
    """Refuses to move a variable."""
    check_distribution()


def bytes_held(variable: Any) -> int:
    """Refuses to count bytes."""
    check_distribution()
    return 0


def axis_sizes(mesh: Any, axis: str, operation: str) -> NoReturn:
    """Raises a RuntimeError: tensors are split only on JAX."""
    raise RuntimeError(
        f"{operation} needs the JAX backend, the only one on which Keras splits "
        f"tensors over devices. Received: KERAS_BACKEND={keras.config.backend()!r}"
    )


def on_rows(*args: Any) -> NoReturn:
    """Raises a RuntimeError, too."""
    axis_sizes(None, "", "A mesh of devices")


is_local = to_mesh = on_rows
