"""Shared parts of the samplers that truncate the vocabulary.

Shapes: B batch, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Any

from keras import ops

Tensor = Any


def word_at(words: Tensor, place: Tensor) -> Tensor:
    """Returns the word at position `place` of each row."""
    return ops.take_along_axis(words, place[:, None], axis=-1)[:, 0]  # (B,)
