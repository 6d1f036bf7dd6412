"""Linear attention and the delta rule against a loop in NumPy, in float64."""

import keras
import numpy as np
import pytest
from gradients import to_numpy
from keras import ops

from keras_attention.ops import fast_weights

B, H, D, V = 2, 3, 5, 7
LENGTHS = [1, 2, 63, 64, 65, 257, 1000]
DECAYS = {None: None, "head": (), "channel": (D,)}


def loop(query, key, value, erase=None, write=None, log_decay=None, mask=None, state=0):
    """The equations, one step after another. Returns the outputs and the state."""
    key, value = key.astype("float64"), value.astype("float64")
    state = np.zeros((B, H, D, value.shape[-1])) + state
    write = erase if write is None else write
    outputs = []

    def strength(x, t):  # (B, H, 1 or width)
        return x[:, t].reshape(B, H, -1).astype("float64")

    for t in range(key.shape[1]):
        new, k = state, key[:, t]
        if log_decay is not None:
            new = np.exp(strength(log_decay, t))[..., None] * new
        if erase is not None:
            held = np.einsum("bhd,bhdv->bhv", strength(erase, t) * k, new)
            new = new - k[..., None] * held[:, :, None]
        v = value[:, t] if write is None else strength(write, t) * value[:, t]
        new = new + k[..., None] * v[:, :, None]
        valid = True if mask is None else mask[:, t, None, None, None]
        state = np.where(valid, new, state)
        outputs.append(np.einsum("bhd,bhdv->bhv", query[:, t], state))
    return np.stack(outputs, 1), state


def inputs(length, rule="delta", decay=None, strengths="head", seed=0):
    """Random arguments; log decays are between −20 and 0, most of them near 0."""
    random = np.random.default_rng(seed)
    query, key = random.normal(size=(2, B, length, H, D))
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    made = {"query": query, "key": key, "value": random.normal(size=(B, length, H, V))}
    if rule == "delta":
        widths = {"erase": (), "write": ()}
        widths = {"erase": (D,), "write": (V,)} if strengths == "channel" else widths
        for name, width in widths.items():
            made[name] = random.uniform(size=(B, length, H, *width))
        if strengths == "equal":
            del made["write"]
    if decay is not None:
        size = (B, length, H, *DECAYS[decay])
        made["log_decay"] = -20 * random.uniform(size=size) ** 8
    made = {name: x.astype("float32") for name, x in made.items()}
    made["mask"] = random.uniform(size=(B, length)) < 0.8
    return made


def rule_of(arguments):
    is_delta = "erase" in arguments
    return fast_weights.delta_rule if is_delta else fast_weights.linear_attention


def assert_near(result, expected, tolerance=1e-5):
    error = np.abs(to_numpy(result) - expected).max()
    assert error <= tolerance * max(1, np.abs(expected).max())


CASES = [("linear", decay, None) for decay in DECAYS]
CASES += [("delta", decay, "equal") for decay in DECAYS]
CASES += [("delta", "channel", "channel"), ("delta", "head", "head")]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("rule", "decay", "strengths"), CASES)
def test_chunks_equal_a_loop(rule, decay, strengths, length):
    arguments = inputs(length, rule, decay, strengths)
    state = np.random.default_rng(1).normal(size=(B, H, D, V)).astype("float32")
    expected = loop(**arguments, state=state)
    results = rule_of(arguments)(**arguments, state=state)
    for result, array in zip(results, expected):
        assert keras.backend.standardize_dtype(result.dtype) == "float32"
        assert_near(result, array)


@pytest.mark.parametrize(("rule", "decay", "strengths"), CASES)
def test_steps_equal_chunks(rule, decay, strengths):
    arguments = inputs(11, rule, decay, strengths)
    outputs, last = rule_of(arguments)(**arguments)
    step = getattr(fast_weights, f"{rule_of(arguments).__name__}_step")
    state = ops.zeros((B, H, D, V))
    for t in range(11):
        now = {name: ops.convert_to_tensor(x[:, t]) for name, x in arguments.items()}
        output, state = step(state=state, **now)
        assert_near(output, to_numpy(outputs)[:, t], 2e-6)
    assert_near(state, to_numpy(last), 2e-6)


@pytest.mark.parametrize("chunk_size", [1, 2, 8, 32])
def test_chunk_size_changes_nothing(chunk_size):
    arguments = inputs(37, "delta", "channel", "channel")
    outputs, state = fast_weights.delta_rule(**arguments, chunk_size=chunk_size)
    expected = loop(**arguments)
    assert_near(outputs, expected[0])
    assert_near(state, expected[1])


@pytest.mark.parametrize(("rule", "decay", "strengths"), CASES)
@pytest.mark.parametrize("length", [1, 11, 150])
def test_weights_sum_values(rule, decay, strengths, length):
    arguments = inputs(length, rule, decay, strengths)
    outputs, state = rule_of(arguments)(**arguments)
    value, write = arguments.pop("value"), arguments.get("write")
    if strengths == "channel":  # such weights do not contain the write strengths
        value, arguments["write"] = write * value, np.ones((B, length, H), "float32")
    weights = to_numpy(fast_weights.weights(**arguments))
    assert_near(np.einsum("bhts,bshv->bthv", weights, value), to_numpy(outputs))
    del arguments["query"]
    keys = to_numpy(fast_weights.last_keys(**arguments))
    assert_near(np.einsum("bshd,bshv->bhdv", keys, value), to_numpy(state))
