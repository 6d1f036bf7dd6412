"""Stories of facts: the answer stands in the story, where it is said to."""

import numpy as np
import pytest

from keras_attention.datasets import recall


def test_the_answer_is_what_the_key_was_told_with():
    drawn = recall.generate(count=200, facts=[1, 3, 5], seed=4, keys=6, values=3)
    story, question = drawn.inputs["story"], drawn.inputs["question"]
    assert (story.shape, question.shape) == ((200, 5, 2), (200, 1))
    assert story.dtype == question.dtype == drawn.answers.dtype == np.int32
    for n in range(200):
        told = story[n, : drawn.facts[n]]
        assert (story[n, drawn.facts[n] :] == 0).all()
        keys, values = told.T
        assert len({*keys}) == len(keys)
        assert keys.min() > 3
        assert keys.max() < recall.vocabulary_size(6, 3) == 10
        assert 1 <= values.min() <= values.max() <= 3
        assert told[drawn.places[n]].tolist() == [question[n, 0], drawn.answers[n]]


def test_all_is_drawn_evenly():
    drawn = recall.generate(count=4000, facts=[2, 4], seed=0, values=4)
    assert np.bincount(drawn.answers).tolist()[0] == 0
    for counts in (
        np.bincount(drawn.answers)[1:] / 1000,
        np.bincount(drawn.facts)[[2, 4]] / 2000,
        np.bincount(drawn.places[drawn.facts == 4]) / 500,
    ):
        np.testing.assert_allclose(counts, 1, atol=0.15)
    again = recall.generate(count=4000, facts=[2, 4], seed=0, values=4)
    np.testing.assert_array_equal(again.inputs["story"], drawn.inputs["story"])
    other = recall.generate(count=4000, facts=[2, 4], seed=1, values=4)
    assert not np.array_equal(other.inputs["story"], drawn.inputs["story"])


def test_words():
    story = np.array([[9, 3], [12, 1], [0, 0]])
    assert recall.words(story) == ["k1 v3", "k4 v1"]
    assert recall.words(np.array([[12]])) == ["k4"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"facts": 0}, "`facts` must be a whole number of at least 1"),
        ({"facts": [2, 2.5]}, "`facts` must be a whole number"),
        ({"facts": []}, "`facts` must be a whole number"),
        ({"facts": 33}, "`facts` must not exceed `keys`.*facts=33, keys=32"),
        ({"count": 0}, "`count` must be at least 1"),
        ({"values": 1}, "`values` at least 2"),
    ],
)
def test_wrong_numbers_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        recall.generate(**{"count": 2, "facts": 3, **wrong})


def test_the_keys_of_all_pairs_return_once_with_their_values_as_targets():
    data = recall.multi_query(300, length=26, pairs=5, seed=2, vocabulary_size=14)
    assert data.tokens.shape == data.targets.shape == (300, 26)
    assert data.tokens.dtype == data.targets.dtype == data.queries.dtype == np.int32
    for tokens, targets, queries in zip(*data):
        keys, values = tokens[:10].reshape(5, 2).T
        assert len({*keys}) == len({*values}) == 5
        assert 1 <= keys.min() <= keys.max() < 7 <= values.min() <= values.max() < 14
        assert (queries % 2 == 0).all()
        assert queries.min() >= 10
        assert (queries[1:] > queries[:-1]).all()
        assert {*zip(tokens[queries], targets[queries])} == {*zip(keys, values)}
        assert np.count_nonzero(targets) == 5
        assert np.count_nonzero(tokens) == 15  # the others are filler
    assert {*data.tokens[:, 0]} == {*range(1, 7)}
    assert {*data.tokens[:, 1]} == {*range(7, 14)}


def test_queries_follow_the_power_law():
    small = {"seed": 0, "vocabulary_size": 10}
    data = recall.multi_query(4000, length=16, pairs=1, power=0.5, **small)
    places = np.bincount((data.queries[:, 0] - 2) // 2, minlength=7) / 4000
    law = np.arange(1, 8) ** -0.5
    np.testing.assert_allclose(places, law / law.sum(), atol=0.025)
    two = recall.multi_query(4000, length=12, pairs=2, power=0.01, **small)
    first = two.tokens[:, 0] == two.tokens[np.arange(4000), two.queries[:, 0]]
    # The first key tends to return first. Its place is chosen first.
    law = np.arange(1, 5) ** -0.99 / (np.arange(1, 5) ** -0.99).sum()
    wanted = sum(
        law[i] * law[j] / (1 - law[i]) for i in range(4) for j in range(i + 1, 4)
    )
    np.testing.assert_allclose(first.mean(), wanted, atol=0.025)


def test_filler_may_be_random():
    plain = recall.multi_query(50, length=40, pairs=3, seed=1, vocabulary_size=20)
    data = recall.multi_query(50, 40, 3, 1, vocabulary_size=20, random_filler=True)
    np.testing.assert_array_equal(data.targets, plain.targets)
    is_told = plain.tokens != 0
    np.testing.assert_array_equal(data.tokens[is_told], plain.tokens[is_told])
    assert {*data.tokens[~is_told]} == {*range(20)}
    other = recall.multi_query(50, length=40, pairs=3, seed=2, vocabulary_size=20)
    assert not np.array_equal(other.tokens, plain.tokens)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"length": 13}, "`length` must be even and at least 12 for 3 pairs.*13"),
        ({"length": 10}, "`length` must be even and at least 12 for 3 pairs.*10"),
        ({"vocabulary_size": 6}, "`vocabulary_size` must be even and at least 8 .*6"),
        ({"count": 0}, "`count` and `pairs` must be at least 1.*count=0"),
        ({"pairs": 0}, "`count` and `pairs` must be at least 1.*pairs=0"),
        ({"power": 0}, "`power` above 0.*power=0"),
    ],
)
def test_wrong_sizes_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        recall.multi_query(**{"count": 2, "length": 12, "pairs": 3, **wrong})
