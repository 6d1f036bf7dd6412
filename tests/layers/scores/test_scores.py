"""Scores as layers: their equations, their configs, their messages."""

import keras
import numpy as np
import pytest
import references
from gradients import gradient, tensor, to_numpy
from keras import ops

from keras_attention import layers
from keras_attention.layers import scores

B, T, S, D, E, U = 2, 3, 5, 7, 4, 11


def inputs(width=D):
    return references.normal(B, T, D), references.normal(B, S, width, seed=1)


def general(score, query, key):
    (kernel,) = score.get_weights()  # (Dk, Dq)
    return references.each_pair(lambda q, k: q @ kernel.T @ k)(query, key)


def additive(score, query, key):
    w = {weight.path.split("/", 1)[1]: to_numpy(weight) for weight in score.weights}
    bias = w.get("key/bias", 0)

    scale = w["scale"]
    if score.normalize:
        scale = w["gain"] * scale / np.linalg.norm(scale)

    def vector(q, k):
        return scale @ np.tanh(q @ w["query/kernel"] + k @ w["key/kernel"] + bias)

    return references.each_pair(vector)(query, key)


def concat(score, query, key):
    kernel, scale = score.get_weights()

    def vector(q, k):
        return scale @ np.tanh(np.concatenate([q, k]) @ kernel)

    return references.each_pair(vector)(query, key)


def times(factor, name):
    return lambda score, query, key: factor * references.SCORES[name](query, key)


CASES = {  # how to make it, its reference, the width of its keys
    "dot": (lambda **k: layers.DotScore(**k), times(1, "dot"), D),
    "scaled": (
        lambda **k: layers.DotScore(scaled=True, **k),
        times(1, "scaled_dot"),
        D,
    ),
    "cosine": (
        lambda **k: layers.CosineScore(scale=3.0, **k),
        times(3.0, "cosine"),
        D,
    ),
    "rbf": (lambda **k: layers.RBFScore(gamma=0.3, **k), times(0.3, "rbf"), D),
    "general": (lambda **k: layers.GeneralScore(**k), general, E),
    "additive": (lambda **k: layers.AdditiveScore(U, **k), additive, E),
    "additive_without_bias": (
        lambda **k: layers.AdditiveScore(
            U, use_bias=False, kernel_initializer="he_normal", **k
        ),
        additive,
        E,
    ),
    "additive_normalized": (
        lambda **k: layers.AdditiveScore(U, normalize=True, **k),
        additive,
        E,
    ),
    "additive_exact": (
        lambda **k: layers.AdditiveScore(U, exact=True, **k),
        additive,
        E,
    ),
    "concat": (lambda **k: layers.ConcatScore(U, **k), concat, E),
    "concat_exact": (lambda **k: layers.ConcatScore(U, exact=True, **k), concat, E),
}


def move(score):
    """Gives every weight, biases too, numbers that are not zero."""
    rng = np.random.default_rng(5)
    score.set_weights([rng.normal(size=w.shape) for w in score.weights])


@pytest.mark.parametrize("case", CASES)
def test_equation_gradient_and_config(case):
    make, reference, width = CASES[case]
    query, key = inputs(width)
    score = make(name="score")
    similar = score(tensor(query), tensor(key))
    move(score)
    similar = score(tensor(query), tensor(key))
    expected = reference(score, query, key)
    np.testing.assert_allclose(to_numpy(similar), expected, rtol=1e-4, atol=1e-4)

    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(score)
    )
    assert type(again) is type(score)
    assert again.get_config() == score.get_config()
    again(tensor(query), tensor(key))  # builds it, if it is not built yet
    again.set_weights(score.get_weights())
    np.testing.assert_array_equal(
        to_numpy(again(tensor(query), tensor(key))), to_numpy(similar)
    )

    symbolic = score(keras.Input((None, D)), keras.Input((None, width)))
    assert symbolic.shape == (None, None, None)

    probe = references.normal(B, T, S, seed=2)
    slopes = gradient(lambda q, k: ops.sum(tensor(probe) * score(q, k)), query, key)
    moved = references.differences(
        lambda q: (probe[:1] * reference(score, q, key[:1])).sum(), query[:1]
    )
    np.testing.assert_allclose(slopes[0][:1], moved, rtol=1e-3, atol=1e-4)
    assert np.all(np.isfinite(slopes[1]))


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("case", CASES)
def test_half_precision(case, dtype):
    make, reference, width = CASES[case]
    query, key = inputs(width)
    score = make(dtype=dtype, name="score")
    similar = score(query, key)
    half = dtype.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(similar.dtype) == half
    assert all(w.dtype == "float32" for w in score.weights)
    expected = reference(score, query, key)
    error = 40 * references.ROUNDING[half] * (1 + np.abs(expected).max())
    np.testing.assert_allclose(to_numpy(similar), expected, atol=error)


def test_scale_vector_is_drawn_like_a_column():
    """Glorot's limit of a kernel (U, 1), √(6 / (U + 1)), not of a vector."""
    score = layers.ConcatScore(1001)
    score.build((B, T, D), (B, S, D))
    scale = np.abs(to_numpy(score.scale))
    limit = np.sqrt(6 / 1002)
    assert 0.95 * limit < scale.max() <= limit * 1.0001


def test_normed_score_by_hand():
    """TensorFlow Addons' normed Bahdanau: v = (3, 4), g = 10, so v becomes (6, 8)."""
    score = layers.AdditiveScore(2, normalize=True, name="score")
    score.build((1, 1, 2), (1, 1, 2))
    np.testing.assert_allclose(to_numpy(score.gain), 2**-0.5, rtol=1e-6)
    for name, value in [("gain", 10.0), ("scale", [3.0, 4.0])]:
        getattr(score, name).assign(np.array(value, "float32"))
    score.query_dense.set_weights([np.eye(2)])
    score.key_dense.set_weights([np.eye(2), np.array([0.0, 0.25])])
    similar = score(tensor([[[0.5, -1.0]]]), tensor([[[0.25, 1.5]]]))
    expected = 6 * 0.6351489523872873 + 8 * 0.6351489523872873  # tanh(0.75), both
    np.testing.assert_allclose(to_numpy(similar), [[[expected]]], rtol=1e-6)


def test_normed_score_does_not_depend_on_the_length_of_its_vector():
    query, key = (tensor(x) for x in inputs(E))
    score = layers.AdditiveScore(U, normalize=True)
    score(query, key)
    move(score)
    before = to_numpy(score(query, key))
    score.scale.assign(7 * score.scale)
    np.testing.assert_allclose(to_numpy(score(query, key)), before, atol=1e-5)
    score.scale.assign(0 * score.scale)  # no direction: nothing, and no NaN
    assert np.all(to_numpy(score(query, key)) == 0)


def test_exact_score_takes_what_the_factored_form_does_not_reach():
    """Queries and keys that cancel, far beyond ±43; many enough to be factored."""
    rng = np.random.default_rng(3)
    query, key = rng.normal(size=(2, 64, D)), rng.normal(size=(2, 80, D))
    scores_ = [layers.ConcatScore(128, exact=exact) for exact in (True, False)]
    for score in scores_:
        score.build(query.shape, key.shape)
    kernel, scale = rng.normal(size=(2 * D, 128)), rng.normal(size=128)
    # The first of a query's numbers is 60 and of a key's −60, with a column of ones.
    query[..., 0], key[..., 0] = 60, -60
    kernel[0] = kernel[D] = 1
    for score in scores_:
        score.set_weights([kernel, scale])
    projected = [query @ kernel[:D], key @ kernel[D:]]
    expected = np.tanh(projected[0][:, :, None] + projected[1][:, None]) @ scale
    exact, factored = (to_numpy(s(tensor(query), tensor(key))) for s in scores_)
    np.testing.assert_allclose(exact, expected, atol=1e-3)  # of sums near 60
    assert np.all(np.isfinite(factored))


def test_get():
    for name, kind in [
        ("dot", layers.DotScore),
        ("scaled_dot", layers.DotScore),
        ("cosine", layers.CosineScore),
        ("rbf", layers.RBFScore),
        ("general", layers.GeneralScore),
    ]:
        score = scores.get(name, dtype="mixed_bfloat16")
        assert type(score) is kind
        assert score.compute_dtype == "bfloat16"
    assert scores.get("scaled_dot").scaled
    assert not scores.get("dot").scaled
    mine = layers.AdditiveScore(U)
    assert scores.get(mine) is mine
    config = keras.saving.serialize_keras_object(mine)
    assert scores.get(config).get_config() == mine.get_config()


KNOWN = "cosine.*dot.*general.*rbf.*scaled_dot"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: scores.get("dott"), rf"`score` must be one of .*{KNOWN}.*'dott'"),
        (lambda: scores.get(3), r"`score` must be one of .*Received: score=3"),
        (lambda: layers.RBFScore(gamma=0), r"`gamma` must be positive.*gamma=0"),
        (lambda: layers.AdditiveScore(0), r"`units` must be at least 1.*units=0"),
        (lambda: layers.ConcatScore(-3), r"`units` must be at least 1.*units=-3"),
    ],
)
def test_arguments_that_do_not_fit(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("case", ["dot", "scaled", "cosine", "rbf"])
def test_keys_of_another_width(case):
    score = CASES[case][0]()
    query, key = inputs(E)
    with pytest.raises(ValueError, match=r"`query` and `key` must have the same width"):
        score(query, key)


def test_score_is_abstract():
    with pytest.raises(TypeError, match=r"abstract class Score .*compare"):
        layers.Score()
