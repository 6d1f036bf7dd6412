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
