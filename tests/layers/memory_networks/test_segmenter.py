"""Segments of a stream of words: scores, examples and what is learned."""

import keras
import numpy as np
import pytest
from calling import needs_training
from gradients import to_numpy

from keras_attention.datasets import babi
from keras_attention.layers import Segmenter


def test_a_segment_ends_where_its_score_is_positive():
    """By the equation, in float64, from the words since the last end."""
    rng = np.random.default_rng(0)
    model = Segmenter(13, embedding_dim=5)
    model.build(None)
    for weight in model.weights:
        weight.assign(rng.normal(0.3, 1, weight.shape))
    u, w = (to_numpy(weight.value) for weight in model.weights)
    words = rng.integers(1, 13, 97)
    expected, last = [], 0
    for place in range(1, len(words) + 1):
        if np.sum(u[words[last:place]] @ w) > 0:
            expected.append(words[last:place].tolist())
            last = place
    found = [segment.tolist() for segment in model.segment(words)]
    assert 20 < len(expected) < 90
    assert found[: len(expected)] == expected
    rest = [word for segment in found[len(expected) :] for word in segment]
    assert rest == words[last:].tolist()
    batch = np.stack([words[:5], [*words[5:8], 0, 0]])
    scores = to_numpy(model(batch))[:, 0]
    sums = [u[words[:5]].sum(0) @ w[:, 0], u[words[5:8]].sum(0) @ w[:, 0]]
    np.testing.assert_allclose(scores, sums, rtol=1e-4, atol=1e-6)
    assert model.segment([]) == []


@pytest.mark.release
@needs_training
def test_sentences_are_learned_from_their_ends():
    train, test = (babi.simulate(1, n, seed=n) for n in (60, 20))
    vocabulary = babi.Vocabulary.from_examples([*train, *test])
    known = {fact for example in train for fact in example.story}
    words, labels = Segmenter.candidates([vocabulary.encode(f) for f in sorted(known)])
    keras.utils.set_random_seed(0)
    segmenter = Segmenter(len(vocabulary), 10)
    model = keras.Sequential([segmenter])
    model.compile(keras.optimizers.Adam(0.05), keras.losses.Hinge())
    model.fit(words, labels, epochs=30, verbose=0)
    story = max((example.story for example in test), key=len)
    assert not set(story) <= known  # some sentences are new
    stream = [word for fact in story for word in vocabulary.encode(fact)]
    found = [tuple(vocabulary.decode(segment)) for segment in segmenter.segment(stream)]
    assert found == list(story)


def test_beginnings_are_labelled():
    words, labels = Segmenter.candidates([[3, 1], [2]])
    assert words.tolist() == [[3, 0], [3, 1], [2, 0]]
    assert labels.tolist() == [-1, 1, 1]


def test_errors():
    with pytest.raises(ValueError, match="`segments` must be lists of one word"):
        Segmenter.candidates([[1], []])
    with pytest.raises(ValueError, match="`segments` must be lists of one word"):
        Segmenter.candidates([])
    for bad in ([1.7, 2], [1, 0], [2, -1], [1, 2**31], [float("nan")]):
        with pytest.raises(ValueError, match=r"`segments\[1\]` must hold ids of at le"):
            Segmenter.candidates([[1], bad])
    for wrong in (["a"], [True]):
        with pytest.raises(ValueError, match=r"`segments\[0\]` must hold integers"):
            Segmenter.candidates([wrong])
    model = Segmenter(5, 2)
    with pytest.raises(ValueError, match="`words` must have rank 1"):
        model.segment([[1, 2]])
    with pytest.raises(ValueError, match="`words` must hold ids of at least 1 and"):
        model.segment([1, 0])
    with pytest.raises(ValueError, match="`embedding_dim` must be"):
        Segmenter(5, 0)
