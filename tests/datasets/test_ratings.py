"""Ratings: names and numbers, splits, generated ones, and what users bring along."""

import numpy as np
import pytest

from keras_attention.datasets import ratings
from keras_attention.datasets.ratings import Ratings

USERS = ["bob", "ann", "bob", "cid"]
ITEMS = ["Up", "Up", "Alien", "Alien"]


def test_names_become_numbers():
    known = Ratings.of(USERS, ITEMS, [4, 3, 5, 1], scale=(1, 5))
    assert (known.users, known.items) == (("ann", "bob", "cid"), ("Alien", "Up"))
    np.testing.assert_array_equal(known.user, [1, 0, 1, 2])
    np.testing.assert_array_equal(known.item, [1, 1, 0, 0])
    assert known.rating.dtype == np.float32
    assert (len(known), known.mean) == (4, 3.25)
    assert set(known.inputs) == {"user", "item"}
    some = known[known.user == 1]
    assert (len(some), some.users) == (2, known.users)
    found = known.numbers(users=["cid"], items=["Up", "Alien"])
    np.testing.assert_array_equal(found["user"], [2])
    np.testing.assert_array_equal(found["item"], [1, 0])


def test_unknown_names_are_named():
    known = Ratings.of(USERS, ITEMS, [4, 3, 5, 1])
    with pytest.raises(ratings.UnknownNameError, match=r"users with \['eve'\]"):
        known.numbers(users=["ann", "eve"])
    with pytest.raises(ratings.UnknownNameError, match=r"items with \['Jaws'\]"):
        known.numbers(items=["Jaws"])


@pytest.mark.parametrize(
    ("given", "scale", "message"),
    [
        ([4, 3, 6, 1], (1, 5), r"from 1 to 5. Received: ratings\[2\]=6, and 0 more"),
        ([4, 0, 0.5, 1], (1, 5), r"ratings\[1\]=0, and 1 more like it"),
        ([4, np.nan, 5, 1], (1, 5), r"from 1 to 5. Received: ratings\[1\]=nan"),
        ([4, 3, np.inf, 1], None, r"must be finite. Received: ratings\[2\]=inf"),
        ([4, 3, 5], None, "must be as many, at least one. Received: 4, 4 and 3"),
    ],
)
def test_wrong_ratings_are_named(given, scale, message):
    with pytest.raises(ValueError, match=message):
        Ratings.of(USERS, ITEMS, given, scale)


def test_a_split_keeps_everyone_known():
    made = ratings.generate(users=11, items=7, dim=2, share=0.6, seed=3).ratings
    train, test = made.split(0.3, seed=1)
    assert len(test) == round(0.3 * len(made))
    assert len(train) + len(test) == len(made)
    assert {*train.user} == {*made.user}
    assert {*train.item} == {*made.item}
    pairs = [set(zip(x.user.tolist(), x.item.tolist())) for x in (train, test)]
    assert not pairs[0] & pairs[1]
    again = made.split(0.3, seed=1)[1]
    np.testing.assert_array_equal(again.rating, test.rating)
    assert not np.array_equal(made.split(0.3, seed=2)[1].rating, test.rating)
    with pytest.raises(ValueError, match="`share` must be above 0 and below 1"):
        made.split(1.0)


def test_generated_ratings_are_products_and_noise():
    made = ratings.generate(users=60, items=40, dim=3, share=0.5, noise=0.25, seed=1)
    r = made.ratings
    assert len(r) == 1200
    assert len({*zip(r.user.tolist(), r.item.tolist())}) == 1200  # none twice
    exact = made.mean + made.user_bias[r.user] + made.item_bias[r.item]
    exact += (made.user_vectors[r.user] * made.item_vectors[r.item]).sum(-1)
    noise = r.rating - exact
    assert abs(noise.std() / 0.25 - 1) < 0.1
    assert abs(noise.mean()) < 0.03
    big = ratings.generate(users=400, items=300, dim=5, seed=1)
    products = big.user_vectors @ big.item_vectors.T
    assert abs(products.std() - 1) < 0.1
    assert len(ratings.generate(3, 2, 1, share=1.0).ratings) == 6
    for wrong in ({"users": 0}, {"share": 0.0}, {"share": 1.1}, {"noise": -1.0}):
        with pytest.raises(ValueError, match="`users`, `items` and `dim` must be"):
            ratings.generate(**wrong)


def test_histories_are_of_the_same_user_and_other_items():
    made = ratings.generate(users=9, items=13, dim=2, share=0.5, seed=2).ratings
    train, test = made.split(0.2, seed=0)
    for asked in (train, test):
        found = ratings.histories(asked, train, size=4, seed=5)
        assert found["history"].shape == found["history_mask"].shape == (len(asked), 4)
        for n in range(len(asked)):
            there = found["history_mask"][n]
            items = found["history"][n][there]
            own = (train.user == asked.user[n]) & (train.item != asked.item[n])
            assert len({*items}) == len(items) == min(4, own.sum())
            assert found["item"][n] not in items
            said = dict(zip(train.item[own], train.rating[own]))
            told = found["history_ratings"][n][there]
            assert [said[item] for item in items] == told.tolist()
            assert (found["history_ratings"][n][~there] == 0).all()
    with pytest.raises(ValueError, match="`size` must be at least 1"):
        ratings.histories(test, train, size=0)
    other = ratings.generate(users=3, items=13, dim=2, seed=2).ratings
    with pytest.raises(ValueError, match=r"same users and items. Received: 3 and 9"):
        ratings.histories(other, train, size=2)
