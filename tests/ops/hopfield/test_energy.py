"""Hopfield updates and energies against loops in NumPy, in the dtypes of every day."""

import hopfield_references as plain
import keras
import numpy as np
import pytest
import references
from calling import needs_training
from gradients import gradient, tensor, to_numpy
from keras import ops

from keras_attention import kernels
from keras_attention.ops import normalizers
from keras_attention.ops.hopfield import energy

pytestmark = pytest.mark.backends("all")

B, T, S, D = 2, 5, 7, 3
FUNCTIONS = {
    "classical": (energy.classical_update, energy.classical_energy),
    "polynomial": (energy.polynomial_update, energy.polynomial_energy),
    "exponential": (energy.exponential_update, energy.exponential_energy),
}
# F of each, and by how much −Σ F is more than the energy: the diagonal of W.
CURVES = {
    "classical": (lambda z: z**2 / 2, lambda stored, width: stored * width / 2),
    "polynomial": (plain.polynomial(3), lambda stored, width: 0),
    "exponential": (np.exp, lambda stored, width: 0),
}


def given(seed=0):
    states = 1.5 * references.normal(B, T, D, seed=seed)
    patterns = 1.5 * references.normal(B, S, D, seed=seed + 1)
    random = np.random.default_rng(seed)
    mask = random.random((B, T, S)) < 0.6
    mask[1, 2] = False
    return states, patterns, np.exp(random.uniform(-1, 1, (B, T))), mask


def signs(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 2, shape) * 2.0 - 1


def call(function, states, patterns, beta=1.0, *names, mask=None, dtype="float32"):
    mask = None if mask is None else ops.convert_to_tensor(mask)
    beta = beta if isinstance(beta, float) else tensor(beta, dtype)
    return function(
        tensor(states, dtype), tensor(patterns, dtype), beta, *names, mask=mask
    )


@pytest.mark.parametrize("similarity", energy.SIMILARITIES)
@pytest.mark.parametrize("normalizer", energy.NORMALIZERS)
def test_update_and_energy_equal_their_equations(normalizer, similarity):
    states, patterns, beta, mask = given()
    for rest in ((0.7, None), (beta, mask)):
        values = (states, patterns, rest[0], normalizer, similarity)
        found = call(energy.hopfield_update, *values, mask=rest[1])
        expected = plain.update(*values, rest[1])
        np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-4, atol=2e-5)
        found = call(energy.hopfield_energy, *values, mask=rest[1])
        expected = plain.energy(*values, rest[1])
        np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("normalizer", energy.NORMALIZERS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_computed_in_float32(dtype, normalizer):
    states, patterns, _, mask = given()
    states, patterns = (references.rounded(x, dtype) for x in (states, patterns))
    # A square of 90,000 is beyond float16.
    states, patterns = 100 * states, 100 * patterns
    states, patterns = (references.rounded(x, dtype) for x in (states, patterns))
    values = (states, patterns, 0.01, normalizer)
    found = call(energy.hopfield_update, *values, mask=mask, dtype=dtype)
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    expected = plain.update(*values, mask=mask)
    references.assert_rounds_to(found, expected, dtype, floor=1e-2)
    found = call(energy.hopfield_energy, *values, mask=mask, dtype=dtype)
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    expected = plain.energy(*values, mask=mask)
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-4, atol=0.1)


@pytest.mark.parametrize("similarity", energy.SIMILARITIES)
@pytest.mark.parametrize("normalizer", energy.NORMALIZERS)
def test_state_that_may_retrieve_nothing(normalizer, similarity):
    states, patterns, beta, mask = given()
    rest = (states, patterns, beta, normalizer, similarity)
    found = to_numpy(call(energy.hopfield_update, *rest, mask=mask))
    assert np.all(found[1, 2] == 0)
    found = to_numpy(call(energy.hopfield_energy, *rest, mask=mask))[1, 2]
    expected = {"dot": states[1, 2] @ states[1, 2] / 2, "cosine": 0.5, "distance": 0}
    np.testing.assert_allclose(found, expected[similarity], rtol=1e-5)


@needs_training
@pytest.mark.parametrize("similarity", ["dot", "distance"])
@pytest.mark.parametrize("normalizer", [*energy.NORMALIZERS[:4]])
def test_gradient_of_the_energy_is_minus_the_step(normalizer, similarity):
    """∇E = ξ − f(ξ), so that a state at rest is a stationary point of E."""
    states, patterns, beta, mask = given(3)
    rest = (normalizer, similarity)
    allowed = ops.convert_to_tensor(mask)

    def total(x, stored, b):
        return ops.sum(energy.hopfield_energy(x, stored, b, *rest, mask=allowed))

    slopes = gradient(total, states, patterns, beta)
    expected = states - plain.update(states, patterns, beta, *rest, mask=mask)
    if similarity == "distance":
        expected[1, 2] = 0  # with nothing to retrieve, E is 0 everywhere
    np.testing.assert_allclose(slopes[0], expected, rtol=1e-3, atol=2e-4)
    differences = references.differences(
        lambda b: plain.energy(states, patterns, b, *rest, mask=mask).sum(), beta
    )
    np.testing.assert_allclose(slopes[2], differences, rtol=1e-3, atol=2e-3)
    assert np.isfinite(slopes[1]).all()


@needs_training
@pytest.mark.parametrize("similarity", energy.SIMILARITIES)
def test_gradients_of_the_update_are_finite(similarity):
    states, patterns, beta, mask = given()
    states[0, 1] = 0
    allowed = ops.convert_to_tensor(mask)
    slopes = gradient(
        lambda *x: ops.sum(
            energy.hopfield_update(*x, "softmax1", similarity, allowed) ** 2
        ),
        states,
        patterns,
        beta,
    )
    for slope in slopes:
        assert np.isfinite(slope).all()
        assert slope.any()
    assert np.all(slopes[0][1, 2] == 0)


@pytest.mark.parametrize("similarity", energy.SIMILARITIES)
def test_a_callable_separates(similarity):
    states, patterns, beta, mask = given()
    values = (states, patterns, beta)
    found = call(
        energy.hopfield_update, *values, normalizers.sparsemax, similarity, mask=mask
    )
    expected = plain.update(*values, "sparsemax", similarity, mask)
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-4, atol=2e-5)


def test_lists_and_whole_numbers():
    found = energy.hopfield_update([[1, 0]], [[1, 1], [3, -1]], 1.0, "hardmax")
    np.testing.assert_array_equal(to_numpy(found), [[3, -1]])


def test_states_and_patterns_of_unlike_dtypes():
    states, patterns, _, _ = given()
    expected = to_numpy(call(energy.hopfield_update, states, patterns))
    for mine, theirs in (("float64", "float32"), ("float32", "float64")):
        x, stored = states.astype(mine), patterns.astype(theirs)
        for similarity in energy.SIMILARITIES:
            energy.hopfield_energy(x, stored, similarity=similarity)
        found = to_numpy(energy.hopfield_update(x, stored))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        x, stored = signs(11, 13).astype(mine), signs(S, 13).astype("int32")
        found = to_numpy(energy.classical_update(x, stored))
        np.testing.assert_array_equal(
            found, to_numpy(energy.classical_update(tensor(x), tensor(stored)))
        )


def test_symbolic_states():
    stored = tensor(given()[1][0])
    x = keras.Input((T, D))
    outputs = [energy.hopfield_update(x, stored), energy.hopfield_energy(x, stored)]
    model = keras.Model(x, outputs)
    new, cost = model(tensor(given()[0]))
    assert tuple(new.shape) == (B, T, D)
    assert tuple(cost.shape) == (B, T)


def curve(kind, states, patterns):
    """The energy in plain NumPy; of the exponential, its logarithm."""
    function, more = CURVES[kind]
    total = plain.binary_energy(states, patterns, function)
    if kind == "exponential":
        return -np.log(-total)
    return total + more(*patterns.shape[-2:])


@pytest.mark.parametrize("order", ["asynchronous", "synchronous"])
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_binary_update_equals_its_loop(kind, order):
    states, patterns = signs(B, 11, 13), signs(S, 13, seed=1)
    update, cost = FUNCTIONS[kind]
    found = update(tensor(states), tensor(patterns), order=order)
    many = np.broadcast_to(patterns, (B, S, 13))
    expected = plain.binary_update(states, many, CURVES[kind][0], order)
    assert (expected != states).any()
    np.testing.assert_array_equal(to_numpy(found), expected)
    found = cost(tensor(states), tensor(patterns))
    expected = curve(kind, states, many)
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-5)


def test_classical_is_the_sign_of_hebbs_sum():
    states, patterns = signs(11, 13), signs(S, 13, seed=1)
    weights = plain.hebb(patterns)
    pull = states @ weights
    found = energy.classical_update(tensor(states), tensor(patterns), "synchronous")
    expected = np.where(pull == 0, states, np.sign(pull))
    assert (pull == 0).any()  # a tie keeps the state
    np.testing.assert_array_equal(to_numpy(found), expected)
    found = energy.classical_energy(tensor(states), tensor(patterns))
    expected = -np.einsum("tj,jk,tk->t", states, weights, states) / 2
    np.testing.assert_array_equal(to_numpy(found), expected)


def test_exponential_update_is_attention():
    """Neuron j is turned over where σⱼ Σᵢ pᵢxᵢⱼ < tanh 1, p = softmax(Xᵀσ)."""
    states, patterns = signs(11, 13), signs(S, 13, seed=1)
    found = energy.exponential_update(tensor(states), tensor(patterns), "synchronous")
    attended = plain.update(states, patterns, 1.0, "softmax")
    expected = np.where(states * attended < np.tanh(1) - 1e-9, -states, states)
    np.testing.assert_array_equal(to_numpy(found), expected)


@pytest.mark.parametrize("order", ["asynchronous", "synchronous"])
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_tie_keeps_the_state(kind, order):
    # Two patterns that differ in the first neuron alone say nothing about it; with an
    # even number of the others agreeing and disagreeing, nor does a lone pattern.
    patterns = np.array([[1.0, 1, 1, 1, 1], [-1, 1, 1, 1, 1]])
    for first in (1.0, -1.0):
        state = np.array([[first, 1, 1, 1, 1]])
        found = FUNCTIONS[kind][0](tensor(state), tensor(patterns), order=order)
        np.testing.assert_array_equal(to_numpy(found), state)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_wide_memories_bring_back_what_is_stored(kind):
    """With 307 neurons e³⁰⁷ is beyond float32, and so is 307²⁰."""
    patterns = signs(5, 307)
    damaged = patterns.copy()
    damaged[:, :40] *= -1
    more = {"degree": 20} if kind == "polynomial" else {}
    update, cost = FUNCTIONS[kind]
    for order in ("asynchronous", "synchronous"):
        found = update(tensor(damaged), tensor(patterns), order=order, **more)
        np.testing.assert_array_equal(to_numpy(found), patterns)
    if kind == "exponential":
        found = cost(tensor(patterns), tensor(patterns))
        np.testing.assert_allclose(to_numpy(found), -307, rtol=1e-6)


def test_binary_memories_in_half_precision_and_whole_numbers():
    states, patterns = signs(11, 13), signs(S, 13, seed=1)
    expected = to_numpy(energy.classical_update(tensor(states), tensor(patterns)))
    for dtype in ("float16", "bfloat16"):
        found = energy.classical_update(tensor(states, dtype), tensor(patterns, dtype))
        assert keras.backend.standardize_dtype(found.dtype) == dtype
        np.testing.assert_array_equal(to_numpy(found), expected)
    found = energy.classical_update(states.astype("int8"), patterns.astype("int8"))
    np.testing.assert_array_equal(to_numpy(found), expected)


@pytest.mark.parametrize("order", ["asynchronous", "synchronous"])
def test_compiled_update_looks_at_no_numbers(order):
    states, patterns = tensor(signs(11, 13)), tensor(signs(S, 13, seed=1))

    def update(x, stored):
        return energy.exponential_update(x, stored, order=order)

    found = kernels.compiled(update, [], False)(states, patterns)
    expected = to_numpy(update(states, patterns))
    np.testing.assert_array_equal(to_numpy(found), expected)


ONES = np.ones((2, 3), "float32")
BAD = {
    "width": (
        lambda: energy.hopfield_update(ONES, np.ones((2, 4), "float32")),
        r"same width \(last axis\).*states.shape=\(2, 3\), patterns.shape=\(2, 4\)",
    ),
    "width of a binary memory": (
        lambda: energy.classical_update(ONES, np.ones((2, 4), "float32")),
        r"same width \(last axis\)",
    ),
    "ragged": (
        lambda: energy.hopfield_energy(ONES, [[1.0, 2.0, 3.0], [4.0, 5.0]]),
        r"`patterns` must have rows of one width. Received: rows of widths \[2, 3\]",
    ),
    "rank": (
        lambda: energy.hopfield_update(ONES[0], ONES),
        r"`states` must have rank 2 or more.*states.shape=\(3,\)",
    ),
    "beta": (
        lambda: energy.hopfield_update(ONES, ONES, beta=0),
        r"`beta` must be positive and finite. Received: beta=0",
    ),
    "beta that is a word": (
        lambda: energy.hopfield_update(ONES, ONES, beta="x"),
        "`beta` must be positive and finite. Received: beta='x'",
    ),
    "betas": (
        lambda: energy.hopfield_energy(ONES, ONES, beta=tensor([1.0, -2.0])),
        "`beta` must be positive and finite",
    ),
    "beta that is no number": (
        lambda: energy.hopfield_energy(ONES, ONES, beta=float("nan")),
        "`beta` must be positive and finite. Received: beta=nan",
    ),
    "normalizer": (
        lambda: energy.hopfield_update(ONES, ONES, normalizer="linear"),
        r"`normalizer` must be one of .*callable.*Received: normalizer='linear'",
    ),
    "normalizer that is a list": (
        lambda: energy.hopfield_update(ONES, ONES, normalizer=["softmax"]),
        r"`normalizer` must be one of .*Received: normalizer=\['softmax'\]",
    ),
    "words": (
        lambda: energy.hopfield_update(ONES, [["a", "b", "c"]]),
        "`patterns` must be real numbers. Received: patterns of dtype <U1",
    ),
    "energy of a normalizer": (
        lambda: energy.hopfield_energy(ONES, ONES, normalizer="linear"),
        r"`normalizer` must be one of .*\]\. Received: normalizer='linear'",
    ),
    "energy of a callable": (
        lambda: energy.hopfield_energy(ONES, ONES, normalizer=lambda z, mask: z),
        "`normalizer` must be given by its name for an energy",
    ),
    "similarity": (
        lambda: energy.hopfield_update(ONES, ONES, similarity="l1"),
        r"`similarity` must be one of .*Received: similarity='l1'",
    ),
    "mask": (
        lambda: energy.hopfield_update(ONES, ONES, mask=np.ones((2, 2), "float32")),
        "`mask` must be boolean",
    ),
    "states": (
        lambda: energy.exponential_update(0.5 * ONES, ONES),
        "`states` of a binary memory must hold nothing but -1 and 1. Received: 6 other",
    ),
    "patterns": (
        lambda: energy.polynomial_energy(tensor(ONES), tensor(0 * ONES)),
        "`patterns` of a binary memory must hold nothing but -1 and 1",
    ),
    "order": (
        lambda: energy.classical_update(ONES, ONES, order="random"),
        r"`order` must be one of \['asynchronous', 'synchronous'\]. Received: order=",
    ),
    "degree": (
        lambda: energy.polynomial_update(ONES, ONES, degree=1.5),
        "`degree` must be a whole number of at least 2. Received: degree=1.5",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    function, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        function()
