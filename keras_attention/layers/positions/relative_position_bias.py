"""A learned bias for each distance.

Shapes: B batch, T queries, S keys, H heads, E width of a head, D width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base.arguments import policy_of, positive
from keras_attention.layers.base.serialization import export
from keras_attention.layers.positions.position import ScoreBias, _distance
from keras_attention.ops import positions

Tensor = Any


@export
class RelativePositionBias(ScoreBias):
    """T5's bias: a learned number for each head and each bucket of distances.

    Args:
        buckets: the number of buckets; each direction gets half of them if
            `bidirectional` is True.
        max_distance: all distances of at least this number share the last bucket.
        bidirectional: whether future and past keys have different buckets.
        embeddings_initializer: the initializer of the numbers.

    Call arguments:
        scores: (B, H, T, S).

    Output shape:
        (B, H, T, S).

    Raises:
        ValueError: if `buckets` is too small for `max_distance`, or the scores are not
            of rank 4.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import RelativePositionBias
    >>> scores = np.zeros((1, 2, 3, 5), "float32")
    >>> tuple(RelativePositionBias(buckets=8)(scores).shape)
    (1, 2, 3, 5)

    Reference:
        Raffel et al., "Exploring the limits of transfer learning with a unified
        text-to-text transformer" (2020), section 2.1.
    """

    def __init__(
        self,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        embeddings_initializer: Any = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.buckets = positive("buckets", buckets)
        self.max_distance = positive("max_distance", max_distance)
        self.bidirectional = bidirectional
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        positions.bucket_table(buckets, max_distance, bidirectional)  # checks the sizes

    def build_heads(self) -> None:
        self.embedding = keras.layers.Embedding(
            self.buckets,
            self.heads,
            embeddings_initializer=self.embeddings_initializer,
            dtype=policy_of(self, "embedding"),
            name="embedding",
        )
        self.embedding.build()

    def bias(self, query_position: Tensor, key_position: Tensor) -> Tensor:
        bucket = positions.relative_buckets(
            _distance(query_position, key_position),
            self.buckets,
            self.max_distance,
            self.bidirectional,
        )
        bias = self.embedding(bucket)  # (T, S, H)
        last = len(bias.shape) - 1  # torch's ONNX export accepts no negative source
        return ops.moveaxis(bias, last, last - 2)  # (H, T, S)
