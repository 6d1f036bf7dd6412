"""Ratings of items by users.

```python
from keras_attention.datasets import ratings

known = ratings.Ratings.of(["ann", "bob"], ["Alien", "Up"], [5, 3], scale=(1, 5))
train, test = ratings.generate(users=300, items=200, seed=0).ratings.split(0.2, seed=1)
train.inputs["user"], train.rating          # what a model is trained on
train.numbers(users=["user 7"])             # {"user": array([7])}
```
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from keras_attention.datasets.ragged import at_least_one


class UnknownNameError(KeyError):
    """A user or an item is not in the ratings."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings with the names of their users and items.

    Attributes:
        user: int32 (N,), the user number of each rating.
        item: int32 (N,), the item number of each rating.
        rating: float32 (N,).
        users: user names by number.
        items: item names by number.
        scale: the lowest and the highest possible rating, or None for no limits.
    """

    user: np.ndarray
    item: np.ndarray
    rating: np.ndarray
    users: tuple[Any, ...]
    items: tuple[Any, ...]
    scale: tuple[float, float] | None = None

    @classmethod
    def of(
        cls,
        users: Iterable[Any],
        items: Iterable[Any],
        ratings: Iterable[float],
        scale: tuple[float, float] | None = None,
    ) -> Ratings:
        """Creates `Ratings` from one user name and one item name per rating.

        Names are numbered in sorted order.

        Args:
            users: the user of each rating, as strings or numbers.
            items: the item of each rating.
            ratings: the rating values, finite numbers.
            scale: the lowest and the highest possible rating; None for no limits.

        Raises:
            ValueError: the lists are empty or differ in length, or a rating is not a
                number or is off the scale.
        """
        users, items = list(users), list(items)
        rating = np.asarray(list(ratings), "float64")
        counts = {len(users), len(items), rating.size}
        if len(counts) > 1 or not users:
            raise ValueError(
                "`users`, `items` and `ratings` must be as many, at least one. "
                f"Received: {len(users)}, {len(items)} and {rating.size}"
            )
        low, high = scale or (-np.inf, np.inf)
        wrong = np.flatnonzero(
            ~(np.isfinite(rating) & (low <= rating) & (rating <= high))
        )
        if len(wrong):
            rule = "finite" if scale is None else f"from {low:g} to {high:g}"
            raise ValueError(
                f"`ratings` must be {rule}. Received: ratings[{wrong[0]}]="
                f"{rating[wrong[0]]:g}, and {len(wrong) - 1} more like it"
            )
        names, titles = sorted(set(users)), sorted(set(items))
        of_user = {name: n for n, name in enumerate(names)}
        of_item = {name: n for n, name in enumerate(titles)}
        return cls(
            np.array([of_user[name] for name in users], "int32"),
            np.array([of_item[name] for name in items], "int32"),
            rating.astype("float32"),
            tuple(names),
            tuple(titles),
            scale,
        )

    def __len__(self) -> int:
        return len(self.rating)

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """{"user": (N,), "item": (N,)}, the inputs of `MatrixFactorization`."""
        return {"user": self.user, "item": self.item}

    @property
    def mean(self) -> float:
        """The mean rating."""
        return float(self.rating.mean(dtype="float64"))

    def __getitem__(self, rows: Any) -> Ratings:
        """Selects ratings by indices, a slice or a mask, and keeps all names."""
        columns = (self.user[rows], self.item[rows], self.rating[rows])
        return Ratings(*columns, self.users, self.items, self.scale)

    def split(self, share: float, seed: int = 0) -> tuple[Ratings, Ratings]:
        """Splits the ratings at random into a training and a test set.

        The ratings are shuffled. The first rating of each user and of each item then
        stays in the training set, so the training set has all users and all items. The
        test set may therefore be smaller than `share`. It is empty if each user has one
        rating.

        Args:
            share: the fraction of test ratings, above 0 and below 1.
            seed: seed for `numpy.random.default_rng`.

        Raises:
            ValueError: the share is out of range.
        """
        if not 0 < share < 1:
            raise ValueError(
                f"`share` must be above 0 and below 1. Received: share={share}"
            )
        order = np.random.default_rng(seed).permutation(len(self))
        required = np.zeros(len(self), bool)
        for numbers in (self.user, self.item):
            required[order[np.unique(numbers[order], return_index=True)[1]]] = True
        free = order[~required[order]]
        tested = free[: round(share * len(self))]
        train = np.setdiff1d(np.arange(len(self)), tested)
        return self[train], self[np.sort(tested)]

    def numbers(
        self, users: Sequence[Any] | None = None, items: Sequence[Any] | None = None
    ) -> dict[str, np.ndarray]:
        """Converts user and item names to numbers, in the format of `inputs`.

        Raises:
            UnknownNameError: a name is not in the ratings.
        """
        columns = {}
        for name, labels, known in (
            ("user", users, self.users),
            ("item", items, self.items),
        ):
            if labels is None:
                continue
            table = {label: n for n, label in enumerate(known)}
            strangers = [label for label in labels if label not in table]
            if strangers:
                raise UnknownNameError(
                    f"Each {name} must have a rating, or a model cannot know it. "
                    f"Received: {name}s with {strangers[:5]}"
                )
            columns[name] = np.array([table[label] for label in labels], "int32")
        return columns


class Generated(NamedTuple):
    """Generated ratings with their true vectors and biases.

    Attributes:
        ratings: `Ratings`.
        user_vectors: (users, dim), the true user vectors.
        item_vectors: (items, dim), the true item vectors.
        user_bias: (users,), the true user biases.
        item_bias: (items,), the true item biases.
        mean: the constant added to all ratings.
        noise: the standard deviation of the added noise. No model can have a lower
            error on unseen ratings.
    """

    ratings: Ratings
    user_vectors: np.ndarray
    item_vectors: np.ndarray
    user_bias: np.ndarray
    item_bias: np.ndarray
    mean: float
    noise: float


def generate(
    users: int = 300,
    items: int = 200,
    dim: int = 3,
    share: float = 0.5,
    noise: float = 0.5,
    seed: int = 0,
) -> Generated:
    """Generates ratings r = μ + bᵤ + bᵢ + pᵤ · qᵢ + ε with known vectors.

    Vector entries are normal and scaled so that pᵤ · qᵢ has standard deviation 1.
    Biases have standard deviation 0.5, μ is 3.5, and ε is normal. Ratings are neither
    rounded nor clipped.

    Args:
        users: number of users.
        items: number of items.
        dim: the width of a vector.
        share: the fraction of user-item pairs that are rated, sampled uniformly.
        noise: the standard deviation of ε.
        seed: seed for `numpy.random.default_rng`.

    Raises:
        ValueError: a number is below 1, `share` is not in (0, 1], or `noise` is below
            0.

    Example:

    >>> from keras_attention.datasets import ratings
    >>> made = ratings.generate(users=5, items=4, dim=2, share=0.5)
    >>> len(made.ratings), made.user_vectors.shape
    (10, (5, 2))
    """
    if min(users, items, dim) < 1 or not 0 < share <= 1 or not noise >= 0:
        raise ValueError(
            "`users`, `items` and `dim` must be at least 1, `share` above 0 and at "
            f"most 1, `noise` at least 0. Received: users={users}, items={items}, "
            f"dim={dim}, share={share}, noise={noise}"
        )
    rng = np.random.default_rng(seed)
    p, q = rng.normal(size=(users, dim)), rng.normal(size=(items, dim))
    p, q = p * dim**-0.25, q * dim**-0.25
    p_bias, q_bias = 0.5 * rng.normal(size=users), 0.5 * rng.normal(size=items)
    mean = 3.5
    count = max(1, round(share * users * items))
    user, item = np.divmod(rng.permutation(users * items)[:count], items)
    rating = mean + p_bias[user] + q_bias[item] + (p[user] * q[item]).sum(-1)
    rating = rating + noise * rng.normal(size=count)
    ratings = Ratings(
        user.astype("int32"),
        item.astype("int32"),
        rating.astype("float32"),
        tuple(f"user {n}" for n in range(users)),
        tuple(f"item {n}" for n in range(items)),
    )
    return Generated(ratings, p, q, p_bias, q_bias, mean, noise)


def histories(
    targets: Ratings, known: Ratings, size: int, seed: int = 0
) -> dict[str, np.ndarray]:
    """Collects each user's ratings of other items as model inputs.

    Args:
        targets: the ratings to predict.
        known: the known ratings, with the same users and items.
        size: S, the maximum number of known ratings per target. They are sampled at
            random from the known ratings of the user.
        seed: seed for `numpy.random.default_rng`.

    Returns:
        {"item": int32 (N,), "history": int32 (N, S), other items that the user rated,
        "history_ratings": float32 (N, S), "history_mask": bool (N, S), False for
        padding}.

    Raises:
        ValueError: `size` is below 1, or `known` has other users or items.
    """
    at_least_one(size=size)
    if targets.users != known.users or targets.items != known.items:
        raise ValueError(
            "`targets` and `known` must be of the same users and items. Received: "
            f"{len(targets.users)} and {len(known.users)} users, "
            f"{len(targets.items)} and {len(known.items)} items"
        )
    rng = np.random.default_rng(seed)
    order = np.argsort(known.user, kind="stable")
    bounds = np.searchsorted(known.user[order], np.arange(len(known.users) + 1))
    history = np.zeros((len(targets), size), "int32")
    ratings = np.zeros((len(targets), size), "float32")
    is_filled = np.zeros((len(targets), size), bool)
    for n, (user, item) in enumerate(zip(targets.user, targets.item)):
        rows = order[bounds[user] : bounds[user + 1]]
        rows = rng.permutation(rows[known.item[rows] != item])[:size]
        history[n, : len(rows)] = known.item[rows]
        ratings[n, : len(rows)] = known.rating[rows]
        is_filled[n, : len(rows)] = True
    return {
        "item": targets.item,
        "history": history,
        "history_ratings": ratings,
        "history_mask": is_filled,
    }
