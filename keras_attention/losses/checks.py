"""Checks the shapes of predictions."""

from __future__ import annotations

from typing import Any

Tensor = Any


def check_axes(y_pred: Tensor, wanted: str) -> None:
    """Raises a ValueError if the predictions do not have rank 3."""
    if len(y_pred.shape) != 3:
        shape = tuple(y_pred.shape)
        raise ValueError(f"`y_pred` must be {wanted}. Received: y_pred.shape={shape}")
