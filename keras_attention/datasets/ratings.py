"""What users think of items: who rated what, and how.

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


class UnknownNameError(KeyError):
    """A user or an item that no rating names."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings, and the names of those who gave them and of what they are of.

    Attributes:
        user: int32 (N,), the number of the user of each rating.
        item: int32 (N,), the number of its item.
        rating: float32 (N,).
        users: the name of each user, by number.
        items: the name of each item, by number.
        scale: the lowest and the highest rating that may be given, or None for no end.
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
        """From the names of users and items, one of each a rating.

        Names are numbered in their order, sorted.

        Args:
            users: who gave each rating: texts, or numbers.
            items: what each is of.
            ratings: what each is, finite numbers.
            scale: the lowest and the highest that there may be; None to ask nothing.

        Raises:
            ValueError: for lists that are not as long as each other, for none, or for a
                rating that is no number or not on the scale.
        """
        users, items = list(users), list(items)
        rating = np.asarray(list(ratings), "float64")
        counts = {len(users), len(items), rating.size}
        if len(counts) > 1 or not users:
            raise ValueError(
                "`users`, `items` and `ratings` must be as many, at least one. "
                f"Received: {len(users)}, {len(items)} and {rating.size}"
            )
        check_scale(rating, scale)
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
        """{"user": (N,), "item": (N,)}, what `MatrixFactorization` takes."""
        return {"user": self.user, "item": self.item}

    @property
    def mean(self) -> float:
        """The mean rating."""
        return float(self.rating.mean(dtype="float64"))

    def __getitem__(self, rows: Any) -> Ratings:
        """Some of the ratings, by numbers, a slice or booleans; all names stay."""
        own = (self.user[rows], self.item[rows], self.rating[rows])
        return Ratings(*own, self.users, self.items, self.scale)

    def split(self, share: float, seed: int = 0) -> tuple[Ratings, Ratings]:
        """Ratings to train on, and a share of them, drawn by chance, to test on.

        The first rating of each user and of each item, in the order drawn, stays among
        those to train on, so that none of them is unknown there. There may be fewer to
        test on than the share, then, and none where each user has one rating.

        Args:
            share: how much to test on, above 0 and below 1.
            seed: what is drawn from.

        Raises:
            ValueError: for another share.
        """
        if not 0 < share < 1:
            raise ValueError(
                f"`share` must be above 0 and below 1. Received: share={share}"
            )
        order = np.random.default_rng(seed).permutation(len(self))
        kept = np.zeros(len(self), bool)
        for numbers in (self.user, self.item):
            kept[order[np.unique(numbers[order], return_index=True)[1]]] = True
        free = order[~kept[order]]
        tested = free[: round(share * len(self))]
        train = np.setdiff1d(np.arange(len(self)), tested)
        return self[train], self[np.sort(tested)]

    def numbers(
        self, users: Sequence[Any] | None = None, items: Sequence[Any] | None = None
    ) -> dict[str, np.ndarray]:
        """The numbers of users and items by name, as `inputs` has them.

        Raises:
            UnknownNameError: for a name that no rating has.
        """
        found = {}
        for name, given, own in (
            ("user", users, self.users),
            ("item", items, self.items),
        ):
            if given is None:
                continue
            table = {one: n for n, one in enumerate(own)}
            strangers = [one for one in given if one not in table]
            if strangers:
                raise UnknownNameError(
                    f"No rating names these {name}s, so that a model cannot know them. "
                    f"Received: {name}s with {strangers[:5]}"
                )
            found[name] = np.array([table[one] for one in given], "int32")
        return found


class Generated(NamedTuple):
    """Ratings that are known to come from products of vectors.

    Attributes:
        ratings: `Ratings`.
        user_vectors: (users, dim), those that the ratings were made from.
        item_vectors: (items, dim).
        user_bias: (users,).
        item_bias: (items,).
        mean: what is added to all.
        noise: the standard deviation of what was added by chance: no model can be
            nearer to ratings that it has not seen.
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
    """Ratings r = μ + bᵤ + bᵢ + pᵤ · qᵢ + ε of users and items with known vectors.

    The entries of vectors are normal, so that a product has deviation 1; biases have
    deviation 0.5, μ is 3.5, and ε is normal. Nothing is rounded or cut off.

    Args:
        users: how many.
        items: how many.
        dim: the width of a vector.
        share: of all pairs of a user and an item, how many are rated; which ones is
            drawn evenly.
        noise: the deviation of ε.
        seed: what is drawn from.

    Raises:
        ValueError: for numbers below 1, a share that is not above 0 and at most 1, or a
            noise below 0.

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
    asked: Ratings, told: Ratings, size: int, seed: int = 0
) -> dict[str, np.ndarray]:
    """What the user of each rating said of other items: inputs of a model of these.

    Args:
        asked: the ratings that are to be foretold.
        told: those that may be known for it, of the same users and items.
        size: S, how many of them a user brings along at most; which ones is drawn.
        seed: what is drawn from.

    Returns:
        {"item": int32 (N,), "history": int32 (N, S), items that the user rated, the
        one that is asked for never among them, "history_ratings": float32 (N, S),
        "history_mask": booleans (N, S), False where there is none}.

    Raises:
        ValueError: for a size below 1, or ratings of other users or items.
    """
    if size < 1:
        raise ValueError(f"`size` must be at least 1. Received: size={size}")
    if asked.users != told.users or asked.items != told.items:
        raise ValueError(
            "`asked` and `told` must be of the same users and items. Received: "
            f"{len(asked.users)} and {len(told.users)} users, {len(asked.items)} and "
            f"{len(told.items)} items"
        )
    rng = np.random.default_rng(seed)
    order = np.argsort(told.user, kind="stable")
    bounds = np.searchsorted(told.user[order], np.arange(len(told.users) + 1))
    history = np.zeros((len(asked), size), "int32")
    given = np.zeros((len(asked), size), "float32")
    is_filled = np.zeros((len(asked), size), bool)
    for n, (user, item) in enumerate(zip(asked.user, asked.item)):
        rows = order[bounds[user] : bounds[user + 1]]
        rows = rng.permutation(rows[told.item[rows] != item])[:size]
        history[n, : len(rows)] = told.item[rows]
        given[n, : len(rows)] = told.rating[rows]
        is_filled[n, : len(rows)] = True
    return {
        "item": asked.item,
        "history": history,
        "history_ratings": given,
        "history_mask": is_filled,
    }


def check_scale(
    ratings: np.ndarray, scale: tuple[float, float] | None, where: str = "ratings"
) -> None:
    """Refuses ratings that nobody can have given.

    Args:
        ratings: numbers (N,).
        scale: the lowest and the highest, or None.
        where: what the ratings are called in the error.

    Raises:
        ValueError: for one that is no finite number, or not on the scale.
    """
    low, high = scale or (-np.inf, np.inf)
    wrong = ~(np.isfinite(ratings) & (low <= ratings) & (ratings <= high))
    if wrong.any():
        first = int(np.argmax(wrong))
        rule = "finite" if scale is None else f"from {low:g} to {high:g}"
        raise ValueError(
            f"`{where}` must be {rule}. Received: {where}[{first}]={ratings[first]:g}, "
            f"and {int(wrong.sum()) - 1} more like it"
        )
