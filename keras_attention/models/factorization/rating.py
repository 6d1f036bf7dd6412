"""What models of ratings share: their tables, and who and what is known to them.

Shapes: N examples.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops


class Tables:
    """Makes embeddings that are regularized alike.

    Args:
        regularization: of all of a table, at least 0.
        dtype: of the layers.

    Raises:
        ValueError: for a regularization below 0.
    """

    def __init__(self, regularization: float, dtype: Any) -> None:
        if not regularization >= 0:
            raise ValueError(
                "`regularization` must be at least 0. "
                f"Received: regularization={regularization}"
            )
        self.regularization = regularization
        self.dtype = dtype

    def __call__(self, size: int, dim: int, name: str) -> keras.layers.Embedding:
        """Vectors, whose products with each other are small at first."""
        start = keras.initializers.RandomNormal(stddev=0.1 * dim**-0.5)
        return self._embedding(size, dim, start, name)

    def bias(self, size: int, name: str) -> keras.layers.Embedding:
        """Numbers, 0 at first."""
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
    """The table of an embedding, float32."""
    table = model.get_layer(name).embeddings
    return np.asarray(ops.convert_to_numpy(ops.cast(table, "float32")))


def known(name: str, given: Any, size: int) -> np.ndarray:
    """Numbers of users or items, int32 (N,).

    Args:
        name: of the argument.
        given: an integer, or integers (N,).
        size: how many there are.

    Raises:
        ValueError: for what is no integer, or not one of those.
    """
    found = np.asarray(ops.convert_to_numpy(given) if ops.is_tensor(given) else given)
    if found.ndim > 1 or (found.size and not np.issubdtype(found.dtype, np.integer)):
        raise ValueError(
            f"`{name}` must be an integer, or integers of shape (count,). "
            f"Received: dtype={found.dtype}, shape={found.shape}"
        )
    strangers = sorted({int(n) for n in found.flat if not 0 <= n < size})
    if strangers:
        raise ValueError(
            f"`{name}` must be known to the model, from 0 to {size - 1}: it has no "
            "vector for others, and has to be trained on ratings of theirs. "
            f"Received: {name} with {strangers[:5]}"
        )
    return found.astype("int32")


def pairs(**given: np.ndarray) -> tuple[np.ndarray, ...]:
    """Numbers as many as each other, those that stand alone repeated.

    Raises:
        ValueError: if they cannot be.
    """
    counts = {name: x.size for name, x in given.items() if x.ndim}
    if len(set(counts.values())) > 1:
        names = " and ".join(f"`{name}`" for name in given)
        raise ValueError(f"{names} must be as many. Received: {counts}")
    count = next(iter(counts.values()), 1)
    return tuple(np.broadcast_to(x, (count,)) for x in given.values())


def best(
    ratings: np.ndarray, count: int, left_out: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The items with the highest ratings, and these, best first.

    Args:
        ratings: of all items, (items,).
        count: how many are wanted.
        left_out: items that are not.
    """
    is_valid = np.ones(len(ratings), bool)
    is_valid[left_out] = False
    order = np.argsort(-ratings, kind="stable")
    order = order[is_valid[order]][:count].astype("int32")
    return order, ratings[order]


def finite(name: str, given: np.ndarray) -> None:
    """Refuses numbers that are none.

    Raises:
        ValueError: for one that is infinite or NaN.
    """
    if not np.isfinite(given).all():
        raise ValueError(
            f"`{name}` must be finite. Received: {name} with "
            f"{given[~np.isfinite(given)][:5].tolist()}"
        )
