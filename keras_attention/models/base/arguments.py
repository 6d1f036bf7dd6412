"""Checks the constructor arguments of models."""

from __future__ import annotations

from keras_attention.layers.base.arguments import positive


def check_sizes(**sizes: int) -> None:
    """Raises a ValueError unless all sizes are integers of at least 1."""
    for name, size in sizes.items():
        positive(name, size)
