"""Normalizers against float64 references, over values, dtypes and masks."""

import keras
import numpy as np
import pytest
import references
from calling import few_compiled
from gradients import gradient, tensor, to_numpy
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from keras_attention.numerics import thresholds
from keras_attention.ops import normalizers
from keras_attention.ops.hopfield import patterns

pytestmark = pytest.mark.backends("all")

NAMES = list(references.NORMALIZERS)
SHAPES = [(3, 5), (2, 3, 5)]
SUM_TO_ONE = ["softmax", "sparsemax", "entmax15", "hardmax"]
SPARSE = ["sparsemax", "entmax15", "hardmax"]


def call(name, scores, mask=None, dtype="float32", axis=-1):
    mask = None if mask is None else ops.convert_to_tensor(mask)
    return normalizers.get(name)(tensor(scores, dtype), mask, axis)


@pytest.mark.parametrize("name", NAMES)
@references.examples
@given(data=st.data())
def test_equals_reference(name, data):
    shape = data.draw(st.sampled_from(SHAPES))
    scores = data.draw(references.arrays(shape))
    mask = data.draw(st.none() | references.booleans(shape))
    dtype = data.draw(st.sampled_from(references.DTYPES))
    weights = call(name, scores, mask, dtype)
    assert keras.backend.standardize_dtype(weights.dtype) == dtype
    expected = references.NORMALIZERS[name](references.rounded(scores, dtype), mask)
    # Of a sparse weight the threshold, of the size of the scores, is rounded first.
    references.assert_rounds_to(weights, expected, dtype, floor=3e-6)
    if mask is not None:
        assert np.all(to_numpy(weights)[~mask] == 0)
    if name in SUM_TO_ONE:
        rows = np.ones(shape[:-1]) if mask is None else mask.any(-1).astype("float64")
        loss = references.ROUNDING[dtype] * shape[-1] + 1e-5
        np.testing.assert_allclose(to_numpy(weights).sum(-1), rows, atol=loss)


@pytest.mark.parametrize("dtype", references.DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_row_of_nothing_is_exactly_zero(name, dtype):
    scores = references.normal(3, 5)
    mask = np.array([[True, False, True, True, False], [False] * 5, [True] * 5])
    weights = to_numpy(call(name, scores, mask, dtype))
    assert np.all(weights[1] == 0)
    assert np.all(weights[~mask] == 0)
    assert weights[0].any()
    assert weights[2].any()
    probe = tensor(references.normal(3, 5, seed=1), dtype)
    if keras.config.backend() != "numpy":
        (slope,) = gradient(lambda z: _probe(name, z, mask, probe), scores, dtype=dtype)
        assert np.all(np.isfinite(slope))
        assert np.all(slope[~mask] == 0)
        assert slope[2].any()


def _probe(name, z, mask, probe):
    weights = normalizers.get(name)(z, ops.convert_to_tensor(mask))
    return ops.sum(ops.cast(probe, z.dtype) * weights)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "hardmax"])
@pytest.mark.parametrize("seed", [0, 1])
def test_gradient_equals_finite_differences(name, seed):
    scores = 1.5 * references.normal(3, 5, seed=seed)
    mask = np.random.default_rng(seed).random((3, 5)) < 0.7
    probe = references.normal(3, 5, seed=seed + 2)
    (slope,) = gradient(lambda z: _probe(name, z, mask, probe), scores)
    reference = references.NORMALIZERS[name]
    expected = references.differences(
        lambda z: (probe * reference(z, mask)).sum(), scores
    )
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-5)


def test_gradient_of_hardmax_is_that_of_softmax():
    scores, probe = references.normal(3, 5), references.normal(3, 5, seed=1)
    mask = np.array([[True] * 5, [True, False, True, True, False], [False] * 5])
    (hard,) = gradient(lambda z: _probe("hardmax", z, mask, probe), scores)
    (soft,) = gradient(lambda z: _probe("softmax", z, mask, probe), scores)
    assert soft[:2].any()
    np.testing.assert_allclose(hard, soft, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 1e4), ("bfloat16", 1e4), ("float16", 6e4)]
)
@pytest.mark.parametrize("name", NAMES)
def test_large_scores_do_not_overflow(name, dtype, size):
    scores = np.array([[1, -1, 0, 0.5, 1], [-1] * 5, [1, 1, -1, 1, -0.5]]) * size
    mask = np.array([[True] * 5, [True, True] + [False] * 3, [False] + [True] * 4])
    for allowed in (None, mask):
        weights = call(name, scores, allowed, dtype)
        expected = references.NORMALIZERS[name](
            references.rounded(scores, dtype), allowed
        )
        references.assert_rounds_to(weights, expected, dtype)
    if keras.config.backend() != "numpy":
        probe = references.normal(3, 5)
        (slope,) = gradient(lambda z: _probe(name, z, mask, probe), scores, dtype=dtype)
        assert np.all(np.isfinite(slope))


@pytest.mark.parametrize("name", ["softmax", "entmax15"])
def test_any_axis(name):
    scores = references.normal(2, 5, 3)
    mask = np.random.default_rng(0).random((2, 5, 3)) < 0.7
    weights = to_numpy(call(name, scores, mask, axis=1))
    expected = references.NORMALIZERS[name](
        np.swapaxes(scores, 1, 2), np.swapaxes(mask, 1, 2)
    )
    np.testing.assert_allclose(np.swapaxes(weights, 1, 2), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["softmax", "sparsemax"])
def test_memory_of_a_single_slot(name):
    """Keras warns of a softmax over one score, and warnings are errors here."""
    scores, mask = np.array([[3.0], [-2.0]]), np.array([[True], [False]])
    for allowed in (None, mask):
        weights = to_numpy(call(name, scores, allowed))
        expected = references.NORMALIZERS[name](scores, allowed)
        np.testing.assert_allclose(weights, expected, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_mask_broadcasts(name):
    scores = references.normal(3, 5)
    for mask in (
        np.array([True, True, False, True, False]),
        np.array([[True], [False], [True]]),
    ):
        np.testing.assert_array_equal(
            to_numpy(call(name, scores, mask)),
            to_numpy(call(name, scores, np.broadcast_to(mask, (3, 5)))),
        )


def test_softmax1_is_softmax_with_one_more_score_of_zero():
    scores = 3 * references.normal(3, 5)
    wider = np.concatenate([scores, np.zeros((3, 1))], axis=-1)
    weights = to_numpy(call("softmax1", scores))
    np.testing.assert_allclose(
        weights, to_numpy(call("softmax", wider))[:, :-1], rtol=1e-5, atol=1e-7
    )
    assert np.all(weights.sum(-1) < 1)
    assert to_numpy(call("softmax1", [[-1e4, -1e4]])).sum() == 0


def test_sink_softmax_is_softmax_with_one_more_score():
    scores, sink = 3 * references.normal(3, 5), np.array([[-2.0], [0.0], [1e4]])
    mask = np.array([[True, False, True, True, False], [False] * 5, [True] * 5])
    wider = np.concatenate([scores, sink], axis=-1)
    seen = np.concatenate([mask, mask.any(-1, keepdims=True)], axis=-1)
    found = normalizers.sink_softmax(
        tensor(scores, "float32"), ops.convert_to_tensor(mask), sink=tensor(sink)
    )
    expected = references.NORMALIZERS["softmax"](wider, seen)[:, :-1]
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-5, atol=1e-7)
    assert (to_numpy(found)[1:] == 0).all()


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
def test_sparse_weights_have_exact_zeros_and_sum_to_one(name):
    scores = 4 * references.normal(3, 5)
    weights = to_numpy(call(name, scores))
    assert np.mean(weights == 0) > 0.3
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    np.testing.assert_array_equal(
        weights == 0, references.NORMALIZERS[name](scores) == 0
    )


@pytest.mark.parametrize("spread", [1e-3, 1.0, 8.0])
@pytest.mark.parametrize("name", thresholds.KNOWN)
def test_sparse_weights_without_sorting(name, spread):
    """Of close scores, many have a weight; in the last rows, all or none have."""
    scores = spread * references.normal(5, 2000)
    mask = np.random.default_rng(1).random((5, 2000)) < 0.7
    scores[3], mask[4] = spread, False
    weights = to_numpy(thresholds.KNOWN[name](tensor(scores), tensor(mask, "bool")))
    expected = references.NORMALIZERS[name](scores, mask)
    np.testing.assert_allclose(weights, expected, atol=2e-6)
    np.testing.assert_allclose(weights[:4].sum(-1), 1, atol=1e-4)
    assert not weights[4].any()
    few = scores[:, :5].copy()  # XLA's maximum of many numbers on a CPU can lose a NaN
    few[0, 0] = np.nan
    weights = to_numpy(thresholds.KNOWN[name](tensor(few)))
    assert np.isnan(weights[0]).all()
    expected = references.NORMALIZERS[name](few[1:])
    np.testing.assert_allclose(weights[1:], expected, atol=2e-6)


@pytest.mark.parametrize("name", ["softmax", "sparsemax", "entmax15"])
def test_equal_scores_share(name):
    np.testing.assert_allclose(to_numpy(call(name, [[3.0] * 5] * 3)), 1 / 5, rtol=1e-5)


def test_hand_made_cases():
    scores = np.array([[1.0, 0.5, -1, -1, -1], [0, 3, 3, 1, 3], [2, 2, 2, 2, -2]])
    np.testing.assert_allclose(
        to_numpy(call("sparsemax", scores)),
        [[0.75, 0.25, 0, 0, 0], [0, 1 / 3, 1 / 3, 0, 1 / 3], [0.25] * 4 + [0]],
        atol=1e-6,
    )
    np.testing.assert_array_equal(
        to_numpy(call("hardmax", scores)),
        [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 0, 0, 0, 0]],
    )


def test_get_takes_callables_and_names_what_it_knows():
    mine = lambda scores, mask=None, axis=-1: scores  # noqa: E731
    assert normalizers.get(mine) is mine
    known = "entmax15.*hardmax.*linear.*softmax.*softmax1.*sparsemax"
    with pytest.raises(ValueError, match=f"{known}.*Received: normalizer='softmin'"):
        normalizers.get("softmin")


# entmax with any α: one for each row of a batch

ALPHAS = np.array([1.02, 1.3, 1.5, 2.0])[:, None, None]
SCORES = 2 * references.normal(4, 3, 7, seed=5)
ALLOWED = np.random.default_rng(5).random((4, 3, 7)) < 0.7
ALLOWED[:, 1] = False


def entmax_of_each(scores, mask, alphas):
    """The reference with the α of each row of the batch."""
    masks = [None] * len(scores) if mask is None else mask
    return np.stack(
        [references.entmax(*row, a.item()) for *row, a in zip(scores, masks, alphas)]
    )


@few_compiled("dtype", references.DTYPES)
def test_entmax_is_its_equation(dtype):
    alpha, allowed = (ops.convert_to_tensor(x) for x in (ALPHAS, ALLOWED))
    for mask, size in ((None, 1), (ALLOWED, 1), (ALLOWED, 1e4)):
        rounded = references.rounded(size * SCORES, dtype)
        given = None if mask is None else allowed
        weights = normalizers.entmax(tensor(rounded, dtype), given, -1, alpha)
        assert keras.backend.standardize_dtype(weights.dtype) == dtype
        expected = entmax_of_each(rounded, mask, ALPHAS)
        references.assert_rounds_to(weights, expected, dtype, slack=1e-4, floor=1e-6)


@pytest.mark.slow_on("jax", "tensorflow")
def test_entmax_meets_the_closed_forms():
    mask = ops.convert_to_tensor(ALLOWED)
    for name, alpha in (("sparsemax", 2.0), ("entmax15", 1.5)):
        found = normalizers.entmax(tensor(SCORES), mask, alpha=alpha)
        expected = call(name, SCORES, ALLOWED)
        np.testing.assert_allclose(to_numpy(found), to_numpy(expected), atol=1e-6)
    moved = ops.convert_to_tensor(np.moveaxis(ALLOWED, -1, 1))
    found = normalizers.entmax(tensor(np.moveaxis(SCORES, -1, 1)), moved, 1, 2.0)
    expected = np.moveaxis(to_numpy(call("sparsemax", SCORES, ALLOWED)), -1, 1)
    np.testing.assert_allclose(to_numpy(found), expected, atol=1e-6)


@pytest.mark.parametrize("alpha", [1.0, 1 + 1e-5, 1.0003])
def test_entmax_near_the_softmax(alpha):
    """Learned heads come near; there, 1 / (α − 1) enlarges rounded numbers."""
    alpha = float(np.float32(alpha))
    weights = normalizers.entmax(tensor(SCORES), None, -1, tensor(alpha))
    expected = references.entmax(SCORES, None, max(alpha, 1 + 1e-6))
    np.testing.assert_allclose(to_numpy(weights), expected, atol=3e-6)
    if alpha < 1.0003:
        return
    probe = references.normal(*SCORES.shape, seed=6)
    (slope,) = gradient(
        lambda a: ops.sum(tensor(probe) * normalizers.entmax(tensor(SCORES), alpha=a)),
        np.array(alpha),
    )
    ends = [references.entmax(SCORES, None, alpha + step) for step in (1e-5, -1e-5)]
    expected = (probe * (ends[0] - ends[1])).sum() / 2e-5
    np.testing.assert_allclose(slope, expected, rtol=0.02)


def test_gradients_of_entmax_by_scores_and_alpha():
    probe = references.normal(*SCORES.shape, seed=6)
    alphas = np.minimum(ALPHAS, 1.9)  # sparsemax has a kink

    def loss(z, alpha):
        mask = ops.convert_to_tensor(ALLOWED)
        return ops.sum(tensor(probe) * normalizers.entmax(z, mask, -1, alpha))

    def reference(z, alpha):
        return (probe * entmax_of_each(z, ALLOWED, alpha)).sum()

    by_scores, by_alpha = gradient(loss, SCORES, alphas)
    expected = references.differences(lambda z: reference(z, alphas), SCORES)
    np.testing.assert_allclose(by_scores, expected, rtol=1e-3, atol=1e-4)
    assert (by_scores[~ALLOWED] == 0).all()
    expected = references.differences(lambda a: reference(SCORES, a), alphas)
    np.testing.assert_allclose(by_alpha, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_masked_scores_have_no_effect_on_entmax(bad):
    scores, mask = SCORES.copy(), np.broadcast_to(np.arange(7) < 6, SCORES.shape)
    scores[..., 6] = bad
    alphas = np.minimum(ALPHAS, 1.9)
    probe = references.normal(*SCORES.shape, seed=6)

    def weights(z, alpha):
        masked = ops.convert_to_tensor(mask) if z.shape[-1] == 7 else None
        return normalizers.entmax(z, masked, -1, alpha)

    def loss(z, alpha):
        return ops.sum(tensor(probe[..., : z.shape[-1]]) * weights(z, alpha))

    found = to_numpy(weights(tensor(scores), tensor(alphas)))
    expected = to_numpy(weights(tensor(scores[..., :6]), tensor(alphas)))
    np.testing.assert_allclose(found[..., :6], expected, atol=1e-6)
    assert (found[..., 6] == 0).all()
    by_scores, by_alpha = gradient(loss, scores, alphas)
    expected = gradient(loss, scores[..., :6], alphas)
    np.testing.assert_allclose(by_scores[..., :6], expected[0], atol=1e-5)
    assert (by_scores[..., 6] == 0).all()
    np.testing.assert_allclose(by_alpha, expected[1], rtol=1e-4, atol=1e-5)


def test_entmax_of_infinite_scores():
    """Scores of −∞ have no weight; others show."""
    rows = np.array([[1.0, -np.inf, 0.5], [1, np.inf, 0.5], [1, np.nan, 0.5]])
    with np.errstate(all="ignore"):
        found = to_numpy(normalizers.entmax(tensor(rows), alpha=1.3))
    expected = references.entmax(rows[:1, [0, 2]], None, 1.3)
    np.testing.assert_allclose(found[:1, [0, 2]], expected, atol=1e-6)
    assert found[0, 1] == 0
    assert np.isnan(found[1:]).all()


def test_entmax_of_numbers_as_alpha():
    weights = normalizers.entmax(tensor(SCORES), alpha=1)
    expected = references.NORMALIZERS["softmax"](SCORES)
    np.testing.assert_allclose(to_numpy(weights), expected, atol=4e-6)
    for alpha in (0.9, 2.1, 3, float("nan")):
        with pytest.raises(ValueError, match=f"from 1 to 2. Received: alpha={alpha}"):
            normalizers.entmax(tensor(SCORES), alpha=alpha)


# null_softmax


def null(scores, mask=None, slots=1, dtype="float32", axis=-1):
    mask = None if mask is None else ops.convert_to_tensor(mask)
    return normalizers.null_softmax(tensor(scores, dtype), mask, axis, slots)


@references.examples
@given(data=st.data())
def test_null_softmax_equals_reference(data):
    shape = data.draw(st.sampled_from(SHAPES))
    scores = data.draw(references.arrays(shape))
    masks = [shape, (5,), (*shape[:-1], 1), (*shape[:-2], 1, 5)]  # all broadcast
    mask = data.draw(st.none() | st.sampled_from(masks).flatmap(references.booleans))
    slots = data.draw(st.integers(1, 11))  # fewer, as many and more than scores
    dtype = data.draw(st.sampled_from(references.DTYPES))
    weights = null(scores, mask, slots, dtype)
    assert keras.backend.standardize_dtype(weights.dtype) == dtype
    expected = references.null_softmax(references.rounded(scores, dtype), mask, slots)
    references.assert_rounds_to(weights, expected, dtype)
    if mask is not None:
        assert np.all(to_numpy(weights)[~np.broadcast_to(mask, shape)] == 0)


@pytest.mark.parametrize("slots", [1, 3, 5, 7])
@pytest.mark.parametrize("dtype", references.DTYPES)
def test_null_softmax_of_a_row_of_nothing_is_exactly_zero(dtype, slots):
    scores = references.normal(3, 5)
    mask = np.array([[True, False, True, True, False], [False] * 5, [True] * 5])
    weights = to_numpy(null(scores, mask, slots, dtype))
    assert np.all(weights[~mask] == 0)
    assert np.all(weights[mask] > 0)
    if keras.config.backend() != "numpy":
        probe = tensor(references.normal(3, 5, seed=1), dtype)
        (slope,) = gradient(
            lambda z: _null_probe(z, mask, slots, probe), scores, dtype=dtype
        )
        assert np.all(np.isfinite(slope))
        assert np.all(slope[~mask] == 0)
        assert slope[2].any()


def _null_probe(z, mask, slots, probe):
    weights = normalizers.null_softmax(z, ops.convert_to_tensor(mask), slots=slots)
    return ops.sum(ops.cast(probe, z.dtype) * weights)


@pytest.mark.parametrize("slots", [2, 5, 7])
def test_gradient_of_null_softmax_equals_finite_differences(slots):
    scores = 1.5 * references.normal(3, 5)
    mask = np.random.default_rng(0).random((3, 5)) < 0.7
    probe = references.normal(3, 5, seed=2)
    (slope,) = gradient(lambda z: _null_probe(z, mask, slots, probe), scores)
    expected = references.differences(
        lambda z: (probe * references.null_softmax(z, mask, slots)).sum(), scores
    )
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [-1e4, 1e4])
@pytest.mark.parametrize("dtype", references.DTYPES)
def test_null_softmax_of_scores_far_from_zero(dtype, size):
    """Rows without a null memory, of which one is full and one is too long."""
    scores = np.array([[1, 1.1, 1, 1.2, 1], [1, 1, 1.1, 1, 1], [1, 1, 1, 1, 1]]) * size
    mask = np.array([[True] * 4 + [False], [True] * 5, [True] * 3 + [False] * 2])
    weights = null(scores, mask, 4, dtype)
    expected = references.null_softmax(references.rounded(scores, dtype), mask, 4)
    references.assert_rounds_to(weights, expected, dtype)
    sums = [1, 1, 0 if size < 0 else 1]  # the last row has room for looking at nothing
    loss = 5 * references.ROUNDING[dtype] + 1e-5
    np.testing.assert_allclose(to_numpy(weights).sum(-1), sums, atol=loss)
    unmasked = to_numpy(null(scores, None, 5, dtype))
    np.testing.assert_allclose(unmasked.sum(-1), 1, atol=loss)
    if keras.config.backend() != "numpy":
        probe = tensor(references.normal(3, 5), dtype)
        (slope,) = gradient(
            lambda z: _null_probe(z, mask, 4, probe), scores, dtype=dtype
        )
        assert np.all(np.isfinite(slope))


def test_null_softmax_does_not_see_padding():
    scores = references.normal(3, 5)
    mask = np.array([[True] * 5, [True, False, True, True, False], [False] * 5])
    wider = np.pad(scores, ((0, 0), (0, 2)), constant_values=9.0)
    padded = to_numpy(null(wider, np.pad(mask, ((0, 0), (0, 2))), 7))
    np.testing.assert_allclose(padded[:, :5], to_numpy(null(scores, mask, 7)), 1e-6)
    assert np.all(padded[:, 5:] == 0)


def test_null_softmax_along_any_axis():
    scores = references.normal(2, 5, 3)
    mask = np.random.default_rng(0).random((2, 5, 1)) < 0.7
    weights = to_numpy(null(scores, mask, 4, axis=1))
    expected = references.null_softmax(
        np.swapaxes(scores, 1, 2), np.swapaxes(mask, 1, 2), 4
    )
    np.testing.assert_allclose(np.swapaxes(weights, 1, 2), expected, atol=1e-5)


def test_null_softmax_between_softmax_and_softmax1():
    scores = 3 * references.normal(3, 5)
    for slots, name in ((3, "softmax"), (5, "softmax"), (6, "softmax1")):
        np.testing.assert_allclose(
            to_numpy(null(scores, slots=slots)), to_numpy(call(name, scores)), 1e-5
        )


# What is not finite

FORMULAS = [*NAMES, "null_softmax"]


def weigh(name, scores, mask, dtype="float32"):
    form = normalizers.null_softmax if name == "null_softmax" else normalizers.get(name)
    with np.errstate(all="ignore"):
        mask = None if mask is None else ops.convert_to_tensor(mask)
        return to_numpy(form(tensor(scores, dtype), mask))


@pytest.mark.parametrize("dtype", references.DTYPES)
@pytest.mark.parametrize("name", [n for n in FORMULAS if n != "linear"])
def test_divergence_shows_and_masked_divergence_does_not(name, dtype):
    mask = np.array([True, True, False, True, True])
    rows = np.array([[1.0, 2, 0, -1, 0.5]] * 4)
    rows[1:, 1] = np.nan, np.inf, -np.inf
    finite = weigh(name, rows[:1], mask, dtype)
    for allowed in (None, mask):
        weights = weigh(name, rows, allowed, dtype)
        seen = slice(None) if allowed is None else allowed
        assert np.all(np.isnan(weights[1:3][:, seen]))
        assert np.all(np.isfinite(weights[[0, 3]]))
        assert np.all(weights[3, 1] == 0)
    for bad in (np.nan, np.inf, -np.inf):  # in a masked key
        rows[0, 2] = bad
        np.testing.assert_array_equal(weigh(name, rows[:1], mask, dtype), finite)


@pytest.mark.parametrize("name", ["softmax", "sparsemax", "entmax15", "hardmax"])
def test_scores_below_every_mask_value(name):
    scores = np.array([[-3e38, -2e38, 5.0, -2e38, -3.4e38]])
    mask = np.array([True, True, False, True, True])
    expected = references.NORMALIZERS[name](scores, mask)
    np.testing.assert_allclose(weigh(name, scores, mask), expected, atol=1e-6)
    nothing = np.full((1, 5), -np.inf)
    np.testing.assert_array_equal(weigh(name, nothing, mask), 0 * expected)
    assert np.all(np.isnan(weigh(name, nothing, None)))


@pytest.mark.parametrize(
    "name", ["softmax", "softmax1", "sparsemax", "entmax15", "null_softmax"]
)
@pytest.mark.skipif(
    keras.config.backend() not in ("torch", "tensorflow"),
    reason="Keras computes in float32 on the other backends",
)
def test_float64(name):
    scores = 3 * references.normal(20, 5)
    mask = np.random.default_rng(0).random((20, 5)) < 0.7
    of = {**references.NORMALIZERS, "null_softmax": references.null_softmax}
    found = weigh(name, scores, mask, "float64")
    np.testing.assert_allclose(found, of[name](scores, mask), rtol=0, atol=1e-14)


@pytest.mark.backends("jax")
@pytest.mark.parametrize(
    ("name", "normalizer"),
    [
        *((name, normalizers.KNOWN[name]) for name in SPARSE),
        *((f"{name} by sums", known) for name, known in thresholds.KNOWN.items()),
    ],
)
def test_scores_that_xla_computes_again(name, normalizer):
    """XLA computes these scores in each of its loops, with different rounding.

    If a score is compared with a number computed from it, a tenth of the rows lose
    their largest weight.
    """
    import jax

    @jax.jit
    def weigh(query, key, count):
        mask = (jax.numpy.arange(32) < count)[None]
        return normalizer(2.1 * patterns.nearness(query, key, mask), mask)

    reference = references.NORMALIZERS[name.removesuffix(" by sums")]
    for seed in range(50):
        points = references.normal(40, 6, seed=seed).astype("float32")
        query, key = points[:8], points[8:]
        distances = ((query[:, None].astype("float64") - key) ** 2).sum(-1)
        expected = reference(-1.05 * distances, np.arange(32) < 30)
        np.testing.assert_allclose(weigh(query, key, 30), expected, atol=2e-5)
