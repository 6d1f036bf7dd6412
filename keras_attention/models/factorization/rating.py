"""Shared parts of rating models: tables of vectors and validation of indices.

Shapes: N examples.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops


class Tables:
    """Builds embeddings with a common regularization, which must be at least 0."""

    def __init__(self, regularization: float, dtype: Any) -> None:
        if not regularization >= 0:
            raise ValueError(
                "`regularization` must be at least 0. "
                f"Received: regularization={regularization}"
            )
        self.regularization = regularization
        self.dtype = dtype

    def __call__(self, size: int, dim: int, name: str) -> keras.layers.Embedding:
        """Builds a table of vectors with small initial dot products."""
        start = keras.initializers.RandomNormal(stddev=0.1 * dim**-0.5)
        return self._embedding(size, dim, start, name)

    def bias(self, size: int, name: str) -> keras.layers.Embedding:
        """Builds a table of biases, initialized to 0."""
        return self._embedding(size, 1, "zeros", name)

    def _embedding(
        self, size: int, dim: int, initializer: Any, name: str
    ) -> keras.layers.Embedding:
        regularizer = None
        if self.regularization:
            regularizer = keras.regularizers.L2(self.regularization)
        return keras.layers.Embedding(
            size,
            dim,
            embeddings_initializer=initializer,
            embeddings_regularizer=regularizer,
            dtype=self.dtype,
            name=name,
        )


def vectors(model: keras.Model, name: str) -> np.ndarray:
    """Returns the table of an embedding, float32."""
    table = model.get_layer(name).embeddings
    return np.asarray(ops.convert_to_numpy(ops.cast(table, "float32")))


def known(name: str, value: Any, size: int) -> np.ndarray:
    """Validates indices of users or items and returns them as int32 (N,).

    Raises:
        ValueError: for an index that is not an integer or is not below `size`.
    """
    ids = np.asarray(ops.convert_to_numpy(value) if ops.is_tensor(value) else value)
    if ids.ndim > 1 or (ids.size and not np.issubdtype(ids.dtype, np.integer)):
        raise ValueError(
            f"`{name}` must be an integer, or integers of shape (count,). "
            f"Received: dtype={ids.dtype}, shape={ids.shape}"
        )
    strangers = sorted({int(n) for n in ids.flat if not 0 <= n < size})
    if strangers:
        raise ValueError(
            f"`{name}` must be known to the model, from 0 to {size - 1}: it has "
            "vectors only for those in its training data. "
            f"Received: {name} with {strangers[:5]}"
        )
    return ids.astype("int32")


def best(
    ratings: np.ndarray, count: int, left_out: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the items with the highest ratings and their ratings, best first.

    `ratings` (items,) has the rating of each item; `left_out` has the excluded items.
    """
    is_valid = np.ones(len(ratings), bool)
    is_valid[left_out] = False
    order = np.argsort(-ratings, kind="stable")
    order = order[is_valid[order]][:count].astype("int32")
    return order, ratings[order]
