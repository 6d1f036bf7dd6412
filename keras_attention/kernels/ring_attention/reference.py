"""Ring attention on backends that do not split tensors over devices."""

from __future__ import annotations

from typing import Any, NoReturn

import keras


def axis_sizes(mesh: Any) -> NoReturn:
    """Raises a RuntimeError: sequences are split only on JAX."""
    raise RuntimeError(
        "`ring_attention` needs the JAX backend, the only one on which Keras splits "
        f"tensors over devices. Received: KERAS_BACKEND={keras.config.backend()!r}"
    )


def ring_attention(*given: Any) -> NoReturn:
    """Raises a RuntimeError, too."""
    axis_sizes(None)
