"""Matrix factorization: ratings from dot products of user and item vectors.

Shapes: B batch, D width of a vector.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.factorization import rating

Tensor = Any


@export
class MatrixFactorization(ConfiguredModel):
    """Predicts ratings from user and item vectors and biases.

        r̂ᵤᵢ = μ + bᵤ + bᵢ + pᵤ · qᵢ

    Train it by `fit` on ratings with the loss "mse". The dot product is the score of
    attention without a softmax, with users as queries and items as keys.

    Args:
        num_users: the number of users.
        num_items: the number of items.
        dim: D, the width of a vector.
        mean: μ, the mean of the training ratings.
        biases: whether to use bᵤ and bᵢ.
        regularization: λ in λ (Σ |pᵤ|² + Σ |qᵢ|² + Σ bᵤ² + Σ bᵢ²), which is added to
            the loss of each batch. If the loss is a mean over ratings, divide the λ of
            the papers by the number of ratings.

    Inputs: a dict of
        user: int32 (B,).
        item: int32 (B,).

    Unlike `rate`, a call does not check its inputs. An unknown user or item gives NaN
    on JAX and a backend error elsewhere.

    Returns:
        Ratings (B, 1).

    Raises:
        ValueError: for sizes below 1, or a negative regularization. Calls also raise it
            for ids in NumPy arrays that are below 0 or not below the number of ids.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import MatrixFactorization
    >>> model = MatrixFactorization(num_users=5, num_items=7, dim=3, mean=3.5)
    >>> model.rate(users=[0, 4], items=[6, 6]).shape
    (2,)
    >>> items, ratings = model.recommend(user=2, count=3)
    >>> len(items)
    3

    Reference:
        Koren, Bell & Volinsky, "Matrix factorization techniques for recommender
        systems" (2009), equations 2 to 5.
    """

    id_sizes: ClassVar[dict[str, str]] = {"user": "num_users", "item": "num_items"}

    def __init__(
        self,
        num_users: int,
        num_items: int,
        dim: int = 16,
        mean: float = 0.0,
        biases: bool = True,
        regularization: float = 0.0,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        positive("num_users", num_users)
        positive("num_items", num_items)
        positive("dim", dim)
        table = rating.Tables(regularization, dtype)
        user = keras.Input((), dtype="int32", name="user")  # (B,)
        item = keras.Input((), dtype="int32", name="item")  # (B,)
        of_user = table(num_users, dim, "user_vector")
        of_item = table(num_items, dim, "item_vector")
        predicted = ops.sum(of_user(user) * of_item(item), axis=-1, keepdims=True)
        if biases:
            predicted = predicted + table.bias(num_users, "user_bias")(user)  # (B, 1)
            predicted = predicted + table.bias(num_items, "item_bias")(item)
        super().__init__({"user": user, "item": item}, predicted + mean, locals())
        self.mean = float(mean)

    @property
    def user_vectors(self) -> np.ndarray:
        """Returns pᵤ of all users, float32 (users, D)."""
        return rating.vectors(self, "user_vector")

    @property
    def item_vectors(self) -> np.ndarray:
        """Returns qᵢ of all items, float32 (items, D)."""
        return rating.vectors(self, "item_vector")

    def rate(self, users: Any, items: Any) -> np.ndarray:
        """Predicts the ratings of user–item pairs.

        Args:
            users: integers (N,), or one user for all items.
            items: integers (N,), or one item for all users.

        Returns:
            float32 (N,).

        Raises:
            ValueError: for an unknown user or item, or if users and items differ in
                length.
        """
        user = rating.known("users", users, self.num_users)
        item = rating.known("items", items, self.num_items)
        if user.ndim and item.ndim and user.size != item.size:
            counts = {"users": user.size, "items": item.size}
            raise ValueError(f"`users` and `items` must be as many. Received: {counts}")
        user, item = np.broadcast_arrays(*np.atleast_1d(user, item))
        predicted = self.predict(
            {"user": user, "item": item}, batch_size=4096, verbose=0
        )
        return predicted[:, 0]

    def recommend(
        self, user: int, count: int = 10, seen: Any = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the items with the highest predicted ratings of a user.

        Args:
            user: an integer.
            count: the number of items.
            seen: items to exclude, integers.

        Returns:
            The items, int32, best first, and their predicted ratings, float32. There
            are fewer than `count` if too few items remain.

        Raises:
            ValueError: for an unknown user or item, several users, or a `count` below
                1.
        """
        positive("count", count)
        known = rating.known("user", user, self.num_users)
        if np.ndim(known):
            raise ValueError(f"`user` must be one integer. Received: user={user!r}")
        ratings = self.rate(known, np.arange(self.num_items))
        return rating.best(ratings, count, rating.known("seen", seen, self.num_items))
