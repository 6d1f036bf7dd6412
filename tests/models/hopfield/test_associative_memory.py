"""AssociativeMemory: what it stores, gives back, forgets, saves and refuses."""

import sys

import keras
import numpy as np
import pytest
from calling import needs_training, plain

from keras_attention.models import AssociativeMemory, Trajectory
from keras_attention.models.hopfield.associative_memory import TOLERANCE
from keras_attention.ops.hopfield import energy, retrieval
from speed.compare.worker import resident_growth

S, D = 23, 11
BINARY = ("classical", "polynomial", "exponential")


def floats(rows, seed=0, width=D):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, width)).astype("float32")


def signs(rows, seed=0, width=D):
    return np.sign(floats(rows, seed, width)).astype("float32")


def memory_of(patterns, **more):
    memory = AssociativeMemory(**{"chunk_size": 8, **more})
    memory.store(patterns)
    return memory


def test_what_was_stored_comes_back():
    patterns = floats(S)
    memory = memory_of(patterns[:9], beta=8.0, similarity="distance")
    memory.store(patterns[9:])
    assert len(memory) == S
    np.testing.assert_array_equal(plain(memory.patterns), patterns)
    found = plain(memory.retrieve(patterns + 0.1 * floats(S, 1)))
    assert np.abs(found - patterns).max() < 0.05


@pytest.mark.parametrize(
    ("normalizer", "similarity"),
    [("softmax", "dot"), ("softmax1", "distance"), ("sparsemax", "cosine")],
)
def test_a_step_is_that_of_the_equations(normalizer, similarity):
    patterns, queries = floats(S), floats(70, 1)  # more than one block
    given = {"beta": 0.7, "normalizer": normalizer, "similarity": similarity}
    memory = memory_of(patterns, **given)
    expected = energy.hopfield_update(queries, patterns, **given)
    found = plain(memory.retrieve(queries, steps=1))
    np.testing.assert_allclose(found, plain(expected), rtol=1e-4, atol=1e-5)
    expected = energy.hopfield_energy(queries, patterns, **given)
    found = plain(memory.energy(queries))
    np.testing.assert_allclose(found, plain(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", ["asynchronous", "synchronous"])
@pytest.mark.parametrize("kind", BINARY)
def test_neurons_go_by_their_equations(kind, order):
    patterns, queries = signs(3), signs(5, 1)
    memory = memory_of(patterns, kind=kind, order=order)
    update = getattr(energy, f"{kind}_update")
    expected = plain(update(queries, patterns, order=order))
    np.testing.assert_array_equal(plain(memory.retrieve(queries, steps=1)), expected)
    expected = plain(getattr(energy, f"{kind}_energy")(queries, patterns))
    np.testing.assert_allclose(plain(memory.energy(queries)), expected, rtol=1e-5)
    if order == "asynchronous":  # which comes to rest
        found = memory.retrieve(queries)
        again = memory.retrieve(found, steps=1)
        np.testing.assert_array_equal(plain(again), plain(found))


@pytest.mark.backends("all")
def test_each_query_stops_by_itself():
    """Beside one that goes on for long, to the bit as beside others."""
    patterns = floats(S)
    memory = memory_of(patterns, beta=1.0)
    queries = floats(6, 1)
    found, way = memory.retrieve(queries, return_trajectory=True)
    assert len(set(way.steps.tolist())) > 1
    assert way.at_rest.all()
    assert way.states.shape == (way.steps.max() + 1, 6, D)
    assert way.energies.shape == (way.steps.max() + 1, 6)
    assert np.diff(way.energies, axis=0).max() < 1e-5
    np.testing.assert_array_equal(way.states[0], queries)
    np.testing.assert_array_equal(way.states[-1], plain(found))
    for q, steps in enumerate(way.steps):
        moved = np.linalg.norm(np.diff(way.states[:, q], axis=0), axis=-1)
        assert (moved[: steps - 1] > TOLERANCE).all()
        assert moved[steps - 1] <= TOLERANCE
        assert not moved[steps:].any()
        mates = floats(6, 7 + q)
        mates[q] = queries[q]
        np.testing.assert_array_equal(plain(memory.retrieve(mates))[q], plain(found)[q])


def test_the_way_of_blocks_of_unequal_length():
    memory = memory_of(floats(S), beta=1.0)
    one = plain(memory.retrieve(floats(1, 2)))  # is at rest
    queries = np.concatenate([one.repeat(64, 0), floats(3, 1)])
    found, way = memory.retrieve(queries, return_trajectory=True)
    np.testing.assert_array_equal(way.states[-1], plain(found))
    assert way.at_rest.all()
    assert way.steps[:64].max() < way.steps[64:].max()
    found, way = memory.retrieve(queries, steps=2, return_trajectory=True)
    assert way.states.shape[0] == 3
    assert not way.at_rest.all()


def test_axes_in_front_and_none_at_all():
    memory = memory_of(floats(S))
    queries = floats(6, 1)
    flat = plain(memory.retrieve(queries))
    cube = queries.reshape(2, 3, D)
    np.testing.assert_array_equal(plain(memory.retrieve(cube)), flat.reshape(2, 3, D))
    costs = plain(memory.energy(queries))
    assert len(set(costs.tolist())) == 6
    np.testing.assert_array_equal(plain(memory.energy(cube)), costs.reshape(2, 3))
    assert tuple(memory.retrieve(queries[:0]).shape) == (0, D)
    _, way = memory.retrieve(queries[:0], return_trajectory=True)
    assert way.states.shape == (1, 0, D)
    np.testing.assert_allclose(
        memory.predict(queries, verbose=0), flat, rtol=1e-5, atol=1e-6
    )


@pytest.mark.backends("all")
@pytest.mark.parametrize("compiled", [False, True])
def test_predict_knows_what_was_stored_since(compiled):
    memory = memory_of(floats(4), beta=20.0)
    if compiled:
        memory.compile()
    query = floats(1, 5)
    memory.predict(query, verbose=0)
    memory.store(query)
    np.testing.assert_allclose(memory.predict(query, verbose=0), query, atol=1e-3)
    memory.forget()
    memory.store(-np.repeat(query, 5, axis=0))  # a table of the same size
    np.testing.assert_allclose(memory.predict(query, verbose=0), -query, atol=1e-3)


@pytest.mark.parametrize("kind", ["modern", "classical"])
def test_queries_of_other_dtypes(kind):
    """NumPy's own, float64 and int64, and what the rest is not: whole, short."""
    memory = memory_of(signs(S), kind=kind, normalizer="sparsemax", similarity="dot")
    queries = signs(5, 1)
    expected, way = memory.retrieve(queries, return_trajectory=True)
    costs, dtype = plain(memory.energy(queries)), expected.dtype
    for other in ("float64", "int64", "int8"):
        given = queries.astype(other)
        found, same = memory.retrieve(given, return_trajectory=True)
        assert found.dtype == dtype
        np.testing.assert_array_equal(plain(found), plain(expected))
        np.testing.assert_array_equal(same.states, way.states)
        np.testing.assert_array_equal(plain(memory.energy(given)), costs)
    assert isinstance(way, Trajectory)


def network(memory):
    """A memory with layers before and behind it."""
    x = keras.Input((3,))
    front, behind = keras.layers.Dense(D), keras.layers.Dense(2)
    return keras.Model(x, behind(memory(front(x)))), front, behind


@pytest.mark.backends("all")
@needs_training
@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize("eagerly", [False, True])
def test_what_is_behind_a_memory_is_trained(eagerly):
    model, *layers = network(memory_of(floats(4)))
    before = [layer.get_weights()[0] for layer in layers]
    model.compile("sgd", "mse", run_eagerly=eagerly)
    model.fit(floats(4, width=3), floats(4, 1, width=2), verbose=0)
    front, behind = (layer.get_weights()[0] for layer in layers)
    np.testing.assert_array_equal(front, before[0])
    assert (behind != before[1]).any()


@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a `quantize`")
@pytest.mark.filterwarnings("ignore:.*`custom_gradient` for the numpy backend")
def test_quantization_leaves_a_memory_as_it_is():
    patterns = floats(4)
    memory = memory_of(patterns)
    memory.quantize("int8")
    model, _, behind = network(memory)
    model.quantize("int8")
    assert behind.quantization_mode == "int8"
    np.testing.assert_array_equal(plain(memory.patterns), patterns)
    assert model.predict(floats(2, width=3), verbose=0).shape == (2, 2)


def test_forget():
    patterns = floats(S)
    memory = memory_of(patterns)
    memory.forget([0, 5, 5])
    np.testing.assert_array_equal(
        plain(memory.patterns), np.delete(patterns, [0, 5], axis=0)
    )
    memory.forget(S - 3)
    assert len(memory) == S - 3
    for wrong in (S, -1, [0.5]):
        with pytest.raises(ValueError, match=r"`indices` must be whole .*, 20; "):
            memory.forget(wrong)
    for wrong in (np.zeros(S - 3, bool), patterns[0]):
        with pytest.raises(
            ValueError, match=r"not a boolean mask .* of shape \("
        ) as raised:
            memory.forget(wrong)
        assert len(str(raised.value)) < 250  # no numbers of it
    memory.forget({0})
    memory.forget(i for i in (1, 2))
    np.testing.assert_array_equal(plain(memory.patterns)[:2], patterns[[2, 6]])
    memory.forget(range(S - 6))
    assert len(memory) == 0
    assert memory
    memory.store(floats(2, width=3))  # of another width, as in a new one
    memory.forget()
    assert plain(memory.patterns).shape == (0, 0)


@pytest.mark.parametrize("what", ["retrieve", "energy", "pattern_separation"])
def test_an_empty_memory_says_so(what):
    memory = AssociativeMemory()
    given = () if what == "pattern_separation" else (floats(2),)
    with pytest.raises(
        ValueError, match=r"The memory is empty\. `store` patterns first"
    ):
        getattr(memory, what)(*given)


def test_wrong_patterns_lose_nothing():
    patterns, neurons = floats(S), signs(S)
    memory = memory_of(patterns)
    wrong = [
        (floats(2, width=D + 1), r"`patterns` must be as wide .* 11\. .*\(2, 12\)"),
        ([[1.0, 2.0], [1.0]], "`patterns` must have rows of one width"),
        (np.full((2, D), np.nan), r"`patterns` must be finite .* patterns\[0\]"),
        (np.full((1, D), np.inf), "`patterns` must be finite"),
        (patterns[0], r"`patterns` must have rank 2 .* patterns\[None\]\."),
        ([["a"] * D], "`patterns` must be real numbers"),
        (patterns[None], r"`patterns` must be \(patterns, width\)"),
        (patterns[:0], r"`patterns` must be \(patterns, width\)"),
    ]
    for given, message in wrong:
        with pytest.raises(ValueError, match=message):
            memory.store(given)
    np.testing.assert_array_equal(plain(memory.patterns), patterns)
    with pytest.raises(ValueError, match=r"`queries` must be as wide .*, 11"):
        memory.retrieve(floats(2, width=3))
    queries = patterns.copy()
    queries[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"`queries` must be finite .* queries\[3\]"):
        memory.retrieve(queries)
    binary = memory_of(neurons, kind="classical")
    with pytest.raises(ValueError, match=r"`patterns` must be -1 and 1 .*'classical'"):
        binary.store(np.where(neurons > 0, 1, 0))
    with pytest.raises(ValueError, match="`queries` must be -1 and 1"):
        binary.retrieve(0 * neurons)
    np.testing.assert_array_equal(plain(binary.patterns), neurons)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "quantum"}, "`kind` must be one of .*Received: kind='quantum'"),
        ({"normalizer": "nearest"}, "`normalizer` must be one of"),
        ({"similarity": "l1"}, "`similarity` must be one of"),
        ({"order": "random"}, "`order` must be one of"),
        ({"normalizer": ["softmax"]}, r"one of .*: normalizer=\['softmax'\]"),
        ({"beta": 0}, "`beta` must be a positive and finite number. .*: beta=0"),
        ({"beta": float("nan")}, "`beta` must be a positive and finite number"),
        ({"beta": "x"}, "`beta` must be a positive and finite number. .*: beta='x'"),
        ({"beta": [1.0, 2.0]}, "`beta` must be a positive and finite number"),
        ({"degree": 1}, "`degree` must be at least 2"),
        ({"chunk_size": 0}, "`chunk_size` must be at least 1"),
        ({"size": 3}, "no such argument. Received: size=3"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        AssociativeMemory(**arguments)


def test_wrong_numbers_of_steps():
    memory = memory_of(floats(S))
    for name in ("steps", "max_steps"):
        with pytest.raises(ValueError, match=f"`{name}` must be at least 1"):
            memory.retrieve(floats(1), **{name: 0})
    for wrong in (-1, float("nan"), "a", None):
        with pytest.raises(
            ValueError, match="`tolerance` must be a number of at least"
        ):
            memory.retrieve(floats(1), tolerance=wrong)


def test_theory():
    patterns = floats(S)
    memory = memory_of(patterns, beta=0.5)
    expected = plain(retrieval.pattern_separation(patterns))
    np.testing.assert_allclose(plain(memory.pattern_separation()), expected, rtol=1e-4)
    expected = plain(retrieval.retrieval_error_bound(patterns, 0.5, 0.1))
    found = plain(memory.retrieval_error_bound(0.1))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    scores = 0.5 * patterns @ patterns.T
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    expected = plain(retrieval.metastable_size(weights.astype("float32"), 0.8))
    np.testing.assert_array_equal(
        plain(memory.metastable_size(patterns, mass=0.8)), expected
    )
    assert plain(memory_of(patterns[:1]).pattern_separation()).tolist() == [np.inf]
    with pytest.raises(ValueError, match=r"`distance` must be .*distance=-1"):
        memory.retrieval_error_bound(-1.0)
    cosine = memory_of(patterns, similarity="cosine")
    message = "`similarity` must be 'dot' for this .*Received: similarity='cosine'"
    for function in (cosine.retrieval_error_bound, cosine.expected_capacity):
        with pytest.raises(ValueError, match=message):
            function()
    with pytest.raises(ValueError, match="`normalizer` must be 'softmax' for this cap"):
        memory_of(patterns, normalizer="sparsemax").expected_capacity()
    with pytest.raises(ValueError, match="`kind` must be 'modern' for weights of patt"):
        memory_of(signs(S), kind="classical").metastable_size(signs(1))


def test_expected_capacity():
    radius = 3.0
    patterns = floats(5, width=20)
    patterns *= radius * 19**0.5 / np.linalg.norm(patterns, axis=-1, keepdims=True)
    found = memory_of(patterns).expected_capacity()
    assert found == pytest.approx(retrieval.modern_capacity(20, 1.0, radius), rel=1e-4)
    neurons = signs(4)
    expected = {
        "classical": retrieval.classical_capacity(D),
        "polynomial": retrieval.polynomial_capacity(D, 4),
        "exponential": retrieval.exponential_capacity(D, 0.1),
    }
    for kind, capacity in expected.items():
        memory = memory_of(neurons, kind=kind, degree=4)
        assert memory.expected_capacity(flips=0.1) == capacity


@pytest.mark.backends("all")
@pytest.mark.parametrize("stored", [S, 0])
def test_a_file_has_the_patterns(tmp_path, stored):
    memory = AssociativeMemory(beta=2.0, chunk_size=8, name="mine")
    if stored:
        memory.store(floats(stored))
    path = tmp_path / "memory.keras"
    memory.save(path)
    again = keras.saving.load_model(path)
    assert again.get_config() == memory.get_config()
    np.testing.assert_array_equal(plain(again.patterns), plain(memory.patterns))
    assert len(again) == stored
    memory.save_weights(tmp_path / "memory.weights.h5")
    other = memory_of(floats(3, 9))
    other.load_weights(tmp_path / "memory.weights.h5")
    np.testing.assert_array_equal(plain(other.patterns), plain(memory.patterns))
    again.store(floats(2, 4))
    assert len(again) == stored + 2
    if stored:
        np.testing.assert_array_equal(
            plain(memory_of(again.patterns, beta=2.0).retrieve(floats(3, 1))),
            plain(again.retrieve(floats(3, 1))),
        )


def test_half_precision_and_what_is_too_large_for_it():
    patterns = floats(S)
    memory = memory_of(patterns, dtype="float16")
    assert keras.backend.standardize_dtype(memory.patterns.dtype) == "float16"
    found = memory.retrieve(patterns[:3])
    assert keras.backend.standardize_dtype(found.dtype) == "float16"
    expected = plain(memory_of(patterns).retrieve(patterns[:3]))
    np.testing.assert_allclose(plain(found), expected, rtol=5e-3, atol=5e-3)
    with pytest.raises(ValueError, match="`patterns` must be finite in float16"):
        memory.store(1e5 * patterns)
    assert len(memory) == S


@pytest.mark.backends("all")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.skipif(
    keras.config.backend() == "numpy", reason="Keras copies what is an array already"
)
def test_no_matrix_of_all_scores_is_held():
    """64 times 200,000 of them would take 51 MB."""
    memory = AssociativeMemory(beta=0.125)
    memory.store(floats(200_000, width=64))
    queries = floats(64, 1, width=64)
    memory.retrieve(queries, steps=1)  # is compiled
    grown = resident_growth(lambda: plain(memory.retrieve(queries, steps=1)))
    assert grown is None or grown < 16e6
