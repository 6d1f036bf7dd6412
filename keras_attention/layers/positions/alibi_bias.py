"""Attention with linear biases.

Shapes: B batch, T queries, S keys, H heads, E width of a head, D width.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.layers.base.serialization import export
from keras_attention.layers.positions.position import ScoreBias, _distance
from keras_attention.ops import positions

Tensor = Any


@export
class AlibiBias(ScoreBias):
    """Attention with linear biases: adds −m |t − s| to the scores.

    Each head has a fixed slope m. With a causal mask, this is the bias of the paper.
    Without a causal mask, future keys get the same bias as past keys at the same
    distance.

    Call arguments:
        scores: (B, H, T, S).

    Output shape:
        (B, H, T, S).

    Raises:
        ValueError: if the scores are not of rank 4.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import AlibiBias
    >>> scores = np.zeros((1, 8, 3, 3), "float32")
    >>> np.asarray(AlibiBias()(scores))[0, 0, 2].tolist()
    [-1.0, -0.5, 0.0]

    Reference:
        Press et al., "Train short, test long" (2022).
    """

    def bias(self, query_position: Tensor, key_position: Tensor) -> Tensor:
        slopes = ops.convert_to_tensor(positions.alibi_slopes(self.heads), "float32")
        distance = ops.abs(_distance(query_position, key_position))
        distance = ops.expand_dims(ops.cast(distance, "float32"), -3)
        return -ops.expand_dims(slopes, (1, 2)) * distance  # (H, T, S)
