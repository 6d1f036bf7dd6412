"""A user as the attention over what they rated.

Shapes: B batch, S ratings of a user, D width of a vector.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.attention.attention import Attention
from keras_attention.layers.base.arguments import fraction, only_of_models, positive
from keras_attention.layers.base.serialization import export
from keras_attention.models.base import quantization
from keras_attention.models.factorization import rating

Tensor = Any


@export
class AttentiveFactorization(keras.Model):
    """As `MatrixFactorization`, with a user who is what they said of other items.

        eⱼ  = rᵤⱼ − μ − bⱼ                      how much more it was liked than usual
        αⱼ  = softmaxⱼ(xᵢ · kⱼ / √D)            over the items j that u has rated
        pᵤ  = Σⱼ αⱼ eⱼ cⱼ
        r̂ᵤᵢ = μ + bᵢ + pᵤ · qᵢ

    No vector belongs to a user: one who came yesterday needs no training, only ratings.
    The item that is asked for is the query, so that a user is another one for each:
    what they say of comedies is asked for a comedy.

    Args:
        num_items: how many items there are.
        dim: D, the width of each of an item's vectors xᵢ, kᵢ, cᵢ and qᵢ.
        mean: μ, the mean of the ratings that it is trained on.
        dropout: of the weights α.
        regularization: λ in λ times the sum of all squared numbers of the tables, as of
            `MatrixFactorization`.

    Inputs: a dict, which `keras_attention.datasets.ratings.histories` makes, of
        item: int32 (B,).
        history: int32 (B, S), items that the user has rated, `item` not among them.
        history_ratings: floats (B, S).
        history_mask: booleans (B, S), False where there is no rating.

    Returns:
        Ratings (B, 1).

    Masking:
        What is masked is neither read nor counted. A user without ratings is an average
        one: r̂ = μ + bᵢ.

    Raises:
        ValueError: for sizes below 1, a dropout that is not at least 0 and below 1, or
            a regularization below 0.

    Example:

    >>> from keras_attention.models import AttentiveFactorization
    >>> model = AttentiveFactorization(num_items=7, dim=3, mean=3.5)
    >>> model.rate(items=[0, 6], history=[1, 2, 5], ratings=[5.0, 1.5, 4.0]).shape
    (2,)

    Reference:
        Koren, "Factorization meets the neighborhood" (2008), section 4, asymmetric-SVD:
        pᵤ = |R(u)|^(−1/2) Σⱼ eⱼ cⱼ, here with attention's weights in the place of
        |R(u)|^(−1/2), as He et al., "NAIS: neural attentive item similarity model for
        recommendation" (2018), equations 5 and 6.
    """

    def __init__(
        self,
        num_items: int,
        dim: int = 16,
        mean: float = 0.0,
        dropout: float = 0.0,
        regularization: float = 0.0,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        only_of_models("AttentiveFactorization", kwargs)
        positive("num_items", num_items)
        positive("dim", dim)
        fraction("dropout", dropout)
        table = rating.Tables(regularization, dtype)
        bias = table.bias(num_items, "item_bias")
        asks, keys, values, answers = (
            table(num_items, dim, f"item_{name}")
            for name in ("query", "key", "value", "vector")
        )
        attention = Attention(
            "scaled_dot", dropout=dropout, dtype=dtype, name="attention"
        )
        item = keras.Input((), dtype="int32", name="item")  # (B,)
        history = keras.Input((None,), dtype="int32", name="history")  # (B, S)
        told = keras.Input((None,), name="history_ratings")  # (B, S)
        is_valid = keras.Input((None,), dtype="bool", name="history_mask")  # (B, S)

        usual = ops.expand_dims(bias(item), -1)  # (B, 1, 1)
        known_ratings = ops.where(is_valid, told, mean)  # masked ratings are not read
        liked = ops.expand_dims(known_ratings - mean, -1) - bias(history)  # (B, S, 1)
        taste = attention(
            asks(ops.expand_dims(item, 1)),  # (B, 1, D)
            liked * values(history),  # (B, S, D)
            keys(history),
            value_mask=is_valid,
        )
        vector = ops.expand_dims(answers(item), 1)  # (B, 1, D)
        found = usual + ops.sum(taste * vector, axis=-1, keepdims=True)
        super().__init__(
            inputs={
                "item": item,
                "history": history,
                "history_ratings": told,
                "history_mask": is_valid,
            },
            outputs=ops.squeeze(found, -1) + mean,  # (B, 1)
            **kwargs,
        )
        if dtype is not None:
            self.dtype_policy = keras.dtype_policies.get(dtype)
        self.num_items = num_items
        self.dim = dim
        self.mean = float(mean)
        self.dropout = dropout
        self.regularization = regularization

    def rate(self, items: Any, history: Any, ratings: Any) -> np.ndarray:
        """What one user would say of items, from what they said of others.

        Args:
            items: integers (N,), or one.
            history: the items that the user has rated, integers (S,), at least none. An
                item that is asked for, too, is not read for itself.
            ratings: what the user said of them, numbers (S,).

        Returns:
            float32 (N,).

        Raises:
            ValueError: for an item that there is not, or for a history and ratings that
                are not as many.
        """
        item = np.atleast_1d(rating.known("items", items, self.num_items))
        known = np.atleast_1d(rating.known("history", history, self.num_items))
        told = np.atleast_1d(np.asarray(ratings, "float32"))
        if told.shape != known.shape:
            raise ValueError(
                "`history` and `ratings` must be as many. "
                f"Received: {known.size} and {told.size}"
            )
        rating.finite("ratings", told)
        count = known.size
        room = max(1, count)  # a user without ratings brings a masked one
        known, told = (np.pad(x, (0, room - x.size)) for x in (known, told))
        is_valid = np.arange(room) < count
        every = (len(item), room)
        found = self.predict(
            {
                "item": item,
                "history": np.broadcast_to(known, every),
                "history_ratings": np.broadcast_to(told, every),
                "history_mask": is_valid & (known != item[:, None]),
            },
            batch_size=1024,
            verbose=0,
        )
        return found[:, 0]

    def recommend(
        self, history: Any, ratings: Any, count: int = 10
    ) -> tuple[np.ndarray, np.ndarray]:
        """The items that a user would rate highest, of those not rated yet.

        Args:
            history: as of `rate`.
            ratings: as of `rate`.
            count: how many items.

        Returns:
            The items, int32, best first, and what they would be rated, float32.

        Raises:
            ValueError: as `rate`, or for a `count` below 1.
        """
        positive("count", count)
        found = self.rate(np.arange(self.num_items), history, ratings)
        seen = rating.known("history", history, self.num_items)
        return rating.best(found, count, seen)

    def get_config(self) -> dict[str, Any]:
        config = {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "num_items": self.num_items,
            "dim": self.dim,
            "mean": self.mean,
            "dropout": self.dropout,
            "regularization": self.regularization,
        }
        return quantization.write(self, config)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        return quantization.rebuild(cls, config, dict)
