"""Matrix factorization with users represented by attention over their ratings.

Shapes: B batch, S ratings of a user, D width of a vector.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention.layers.attention.attention import Attention
from keras_attention.layers.base.arguments import fraction, positive
from keras_attention.layers.base.serialization import export
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.factorization import rating

Tensor = Any


@export
class AttentiveFactorization(ConfiguredModel):
    """Predicts ratings; a user is represented by attention over the items they rated.

        eⱼ  = rᵤⱼ − μ − bⱼ                      rating relative to the item's average
        αⱼ  = softmaxⱼ(xᵢ · kⱼ / √D)            over the items j rated by u
        pᵤ  = Σⱼ αⱼ eⱼ cⱼ
        r̂ᵤᵢ = μ + bᵢ + pᵤ · qᵢ

    Users have no trained vectors, so a new user needs only ratings and no training. The
    target item is the query, so the vector of a user differs between target items. For
    a comedy, for example, attention can select the ratings of other comedies.

    Args:
        num_items: the number of items.
        dim: D, the width of each of an item's vectors xᵢ, kᵢ, cᵢ and qᵢ.
        mean: μ, the mean of the training ratings.
        dropout: the dropout rate of the weights α.
        regularization: λ, the factor of the sum of squares of all tables, as in
            `MatrixFactorization`.

    Inputs: a dict, as built by `keras_attention.datasets.ratings.histories`, of
        item: int32 (B,).
        history: int32 (B, S), items that the user has rated, without `item`.
        history_ratings: floats (B, S).
        history_mask: booleans (B, S), False for padding.

    Returns:
        Ratings (B, 1).

    Masking:
        Masked ratings are ignored. A user without ratings gets the average rating r̂ =
        μ + bᵢ.

    Raises:
        ValueError: for sizes below 1, a dropout outside [0, 1), or a negative
            regularization. Calls also raise it for ids in NumPy arrays that are below 0
            or not below the number of ids.

    Example:

    >>> from keras_attention.models import AttentiveFactorization
    >>> model = AttentiveFactorization(num_items=7, dim=3, mean=3.5)
    >>> model.rate(items=[0, 6], history=[1, 2, 5], ratings=[5.0, 1.5, 4.0]).shape
    (2,)

    Reference:
        Koren, "Factorization meets the neighborhood" (2008), section 4, asymmetric-SVD:
        pᵤ = |R(u)|^(−1/2) Σⱼ eⱼ cⱼ, here with attention weights instead of
        |R(u)|^(−1/2), as He et al., "NAIS: neural attentive item similarity model for
        recommendation" (2018), equations 5 and 6.
    """

    id_sizes: ClassVar[dict[str, str]] = {"item": "num_items", "history": "num_items"}

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
        positive("num_items", num_items)
        positive("dim", dim)
        fraction("dropout", dropout)
        table = rating.Tables(regularization, dtype)
        bias = table.bias(num_items, "item_bias")
        query_table, key_table, value_table, vector_table = (
            table(num_items, dim, f"item_{name}")
            for name in ("query", "key", "value", "vector")
        )
        attention = Attention(
            "scaled_dot", dropout=dropout, dtype=dtype, name="attention"
        )
        item = keras.Input((), dtype="int32", name="item")  # (B,)
        history = keras.Input((None,), dtype="int32", name="history")  # (B, S)
        history_ratings = keras.Input((None,), name="history_ratings")  # (B, S)
        is_valid = keras.Input((None,), dtype="bool", name="history_mask")  # (B, S)

        base_rating = ops.expand_dims(bias(item), -1)  # (B, 1, 1)
        known_ratings = ops.where(
            is_valid, history_ratings, mean
        )  # masked ratings are not read
        liked = ops.expand_dims(known_ratings - mean, -1) - bias(history)  # (B, S, 1)
        user_vector = attention(
            query_table(ops.expand_dims(item, 1)),  # (B, 1, D)
            liked * value_table(history),  # (B, S, D)
            key_table(history),
            value_mask=is_valid,
        )
        vector = ops.expand_dims(vector_table(item), 1)  # (B, 1, D)
        logits = base_rating + ops.sum(user_vector * vector, axis=-1, keepdims=True)
        super().__init__(
            {
                "item": item,
                "history": history,
                "history_ratings": history_ratings,
                "history_mask": is_valid,
            },
            ops.squeeze(logits, -1) + mean,
            locals(),
        )
        self.mean = float(mean)

    def rate(self, items: Any, history: Any, ratings: Any) -> np.ndarray:
        """Predicts a user's ratings of items from their ratings of other items.

        Args:
            items: integers (N,), or one integer.
            history: the items that the user has rated, integers (S,), possibly empty.
                An item's own rating is not used for its prediction.
            ratings: the user's ratings of these items, numbers (S,).

        Returns:
            float32 (N,).

        Raises:
            ValueError: for an unknown item, or if history and ratings differ in length.
        """
        item = np.atleast_1d(rating.known("items", items, self.num_items))
        known = np.atleast_1d(rating.known("history", history, self.num_items))
        known_ratings = np.atleast_1d(np.asarray(ratings, "float32"))
        if known_ratings.shape != known.shape:
            raise ValueError(
                "`history` and `ratings` must be as many: a rating for each item. "
                f"Received: {known.size} and {known_ratings.size}"
            )
        wrong = known_ratings[~np.isfinite(known_ratings)]
        if wrong.size:
            raise ValueError(
                f"`ratings` must be finite. Received: ratings with {wrong[:5].tolist()}"
            )
        count = known.size
        room = max(1, count)  # a user without ratings gets a masked one
        known, known_ratings = (
            np.pad(x, (0, room - x.size)) for x in (known, known_ratings)
        )
        is_valid = np.arange(room) < count
        every = (len(item), room)
        predicted = self.predict(
            {
                "item": item,
                "history": np.broadcast_to(known, every),
                "history_ratings": np.broadcast_to(known_ratings, every),
                "history_mask": is_valid & (known != item[:, None]),
            },
            batch_size=1024,
            verbose=0,
        )
        return predicted[:, 0]

    def recommend(
        self, history: Any, ratings: Any, count: int = 10
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the unrated items with the highest predicted ratings.

        Args:
            history: as in `rate`.
            ratings: as in `rate`.
            count: the number of items.

        Returns:
            The items, int32, best first, and their predicted ratings, float32.

        Raises:
            ValueError: as in `rate`, and for a `count` below 1.
        """
        positive("count", count)
        predicted = self.rate(np.arange(self.num_items), history, ratings)
        seen = rating.known("history", history, self.num_items)
        return rating.best(predicted, count, seen)
