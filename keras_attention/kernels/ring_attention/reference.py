"""Ring attention on backends that do not split tensors over devices."""

from __future__ import annotations

from typing import Any, NoReturn

from keras_attention.kernels.placement.reference import axis_sizes


def ring_attention(*args: Any) -> NoReturn:
    """Raises a RuntimeError: sequences are split only on JAX."""
    axis_sizes(None, "", "`ring_attention`")
