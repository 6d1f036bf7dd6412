"""The additive score of one query after another, with keys that are precomputed."""

import keras
import numpy as np
import pytest
import references
from calling import BACKEND, few_compiled
from gradients import gradient, second, tensor, to_numpy
from keras import ops
from kernels.additive.test_additive import drawn, expected

from keras_attention.layers import BahdanauAttention
from keras_attention.ops import scores

pytestmark = pytest.mark.backends("all")  # each backend has its own kernel

PRECOMPUTES = BACKEND == "jax"
SIZE = (3, 1, 17, 37)  # B, T, S, U


def score(query, key, scale, exact=False):
    precomputed = scores.precompute_key(key)
    leaves = keras.tree.flatten(precomputed)
    assert (len(leaves) > 1) == PRECOMPUTES
    assert {tuple(x.shape) for x in leaves} == {tuple(key.shape)}
    return scores.additive(query, precomputed, scale, exact)


def assert_right(query, key, scale, slope, **more):
    wanted, *slopes = expected(query, key, scale, slope)
    found = score(*map(tensor, (query, key, scale)), **more)
    np.testing.assert_allclose(to_numpy(found), wanted, rtol=0, atol=1e-5)

    def total(*x):
        return ops.sum(tensor(slope) * score(*x, **more))

    for one, right in zip(gradient(total, query, key, scale), slopes, strict=True):
        np.testing.assert_allclose(one, right, rtol=0, atol=2e-5)


def test_scores_and_gradients():
    assert_right(*drawn(SIZE))


def test_numbers_at_the_edge_of_the_range():
    assert_right(*drawn((2, 1, 5, 11), spread=30.0))


@pytest.mark.parametrize("exact", [False, True])
def test_several_queries_use_the_keys_themselves(exact):
    assert_right(*drawn((2, 3, 5, 7)), exact=exact)
    assert_right(*drawn((2, 1, 5, 7)), exact=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_computed_in_float32(dtype):
    *inputs, slope = drawn(SIZE)
    inputs = [references.rounded(x, dtype) for x in inputs]
    found = score(*(tensor(x, dtype) for x in inputs))
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    wanted, *slopes = expected(*inputs, slope)
    rounding = references.ROUNDING[dtype]
    assert np.all(np.abs(to_numpy(found) - wanted) <= rounding * np.abs(wanted) + 1e-5)

    def total(*x):
        return ops.sum(tensor(slope) * ops.cast(score(*x), "float32"))

    for one, right in zip(gradient(total, *inputs, dtype=dtype), slopes, strict=True):
        limit = 2 * rounding * np.abs(right).max() + 1e-5
        assert np.all(np.abs(one - right) <= limit)


def test_second_derivatives():
    query, key, scale, slope = drawn((2, 1, 5, 3))
    along = references.normals(*(x.shape for x in (query, key, scale)))

    def total(form):
        return lambda *x: ops.sum(tensor(slope) * form(*x))

    found = second(total(score), (query, key, scale), along)
    plain = second(
        total(lambda *x: scores.additive(*x, exact=True)), (query, key, scale), along
    )
    for one, right in zip(found, plain, strict=True):
        np.testing.assert_allclose(one, right, rtol=0, atol=1e-5)


@few_compiled("normalize", [False, True])
def test_a_step_of_a_layer_is_the_layer_and_its_gradient_the_same(normalize):
    layer = BahdanauAttention(7, normalize=normalize)
    query, value = references.normal(2, 3, 5), references.normal(2, 11, 4, seed=1)
    layer.build(query.shape, value.shape)
    mask = np.arange(11) < np.array([[11], [6]])

    def at_once(query, value):
        return layer(query, value, value_mask=tensor(mask, "bool"))

    def in_steps(query, value):
        prepared = layer.prepare(value, mask=tensor(mask, "bool"))
        assert (len(keras.tree.flatten(prepared.key)) > 1) == PRECOMPUTES
        steps = [layer.attend(query[:, t], prepared)[0] for t in range(3)]
        return ops.stack(steps, axis=1)

    given = [tensor(x) for x in (query, value)]
    found, wanted = in_steps(*given), at_once(*given)
    np.testing.assert_allclose(to_numpy(found), to_numpy(wanted), atol=1e-5)
    slopes = [
        gradient(lambda *x, f=f: ops.sum(ops.square(f(*x))), query, value)
        for f in (in_steps, at_once)
    ]
    for one, right in zip(*slopes, strict=True):
        np.testing.assert_allclose(one, right, atol=1e-4)
