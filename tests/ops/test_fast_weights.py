"""Linear attention and the delta rule against a loop in NumPy, in float64."""

import keras
import numpy as np
import pytest
from calling import few_compiled
from gradients import gradient, tensor, to_numpy
from keras import ops

from keras_attention import kernels
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


@pytest.mark.parametrize("decay", ["head", "channel"])
@pytest.mark.parametrize("lowest", [-20.0, -1e4])
def test_strong_decays_keep_later_steps_exact(decay, lowest):
    """After a sum of log decays of −1,000, a difference of sums is off by 1e-4."""
    arguments = inputs(130, "delta", decay, "equal")
    forgets = np.random.default_rng(3).uniform(size=arguments["log_decay"].shape) < 0.2
    arguments["log_decay"] = np.where(forgets, lowest, -1e-3).astype("float32")
    for result, expected in zip(
        fast_weights.delta_rule(**arguments), loop(**arguments)
    ):
        assert_near(result, expected)


def test_equal_keys_keep_the_last_value():
    """The inverse of the triangular matrix has no large entries; its powers have."""
    arguments = inputs(300, "delta", None, "equal")
    del arguments["mask"]
    arguments["key"][:] = arguments["key"][:, :1]
    arguments["query"] = arguments["key"]
    arguments["erase"][:] = 1
    outputs, _ = fast_weights.delta_rule(**arguments)
    assert_near(outputs, arguments["value"], 1e-6)


@pytest.mark.parametrize("name", ["value", "key"])
def test_masked_steps_do_nothing(name):
    arguments = inputs(70, "delta", "channel", "channel")
    expected = fast_weights.delta_rule(**arguments)
    for other in (np.inf, np.nan):
        arguments[name] = arguments[name].copy()
        arguments[name][~arguments["mask"]] = other
        for one, two in zip(fast_weights.delta_rule(**arguments), expected):
            np.testing.assert_array_equal(to_numpy(one), to_numpy(two))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(dtype):
    arguments = inputs(100, "linear")
    mask, arguments = (
        arguments["mask"],
        {n: tensor(x, dtype) for n, x in arguments.items() if n != "mask"},
    )
    arguments["query"] = arguments["key"] = ops.abs(arguments["key"]) * 100
    output, state = fast_weights.linear_attention(
        **arguments, normalize=True, mask=mask
    )
    assert keras.backend.standardize_dtype(output.dtype) == dtype
    assert keras.backend.standardize_dtype(state.dtype) == "float32"
    rounded = {name: to_numpy(x) for name, x in arguments.items()}
    rounded["value"] = np.concatenate([rounded["value"], np.ones((B, 100, H, 1))], -1)
    total = loop(**rounded, mask=mask)[0]
    assert np.abs(total).max() > 65504  # the sums overflow in float16
    empty = total[..., -1:] == 0
    expected = np.where(empty, 0, total[..., :-1] / np.where(empty, 1, total[..., -1:]))
    assert_near(output, expected, 1e-2)


def test_a_query_of_an_empty_memory_gives_zero():
    arguments = inputs(5, "linear")
    arguments["mask"][:] = False
    output, state = fast_weights.linear_attention(**arguments, normalize=True)
    assert not to_numpy(output).any()
    assert not to_numpy(state).any()


@pytest.mark.backends("all")
@few_compiled(("rule", "decay", "strengths"), [CASES[n] for n in (6, 1, 4, 0, 3)])
def test_gradients_equal_finite_differences(rule, decay, strengths):
    """Along a random direction, for all arguments, over three chunks."""
    length = 19
    arguments = inputs(length, rule, decay, strengths)
    arguments["state"] = np.random.default_rng(1).normal(size=(B, H, D, V))
    mask, names = arguments.pop("mask"), [*arguments]
    random = np.random.default_rng(2)
    along = [random.normal(size=x.shape) for x in arguments.values()]
    slopes = random.normal(size=(B, length, H, V)), random.normal(size=(B, H, D, V))

    def total(*tensors):
        made = dict(zip(names, tensors))
        results = rule_of(arguments)(**made, mask=mask, chunk_size=8)
        return sum(ops.sum(x * tensor(y)) for x, y in zip(results, slopes))

    def exact(step):
        moved = {
            n: x.astype("float64") + step * d
            for (n, x), d in zip(arguments.items(), along)
        }
        return sum((x * y).sum() for x, y in zip(loop(**moved, mask=mask), slopes))

    gradients = gradient(total, *arguments.values())
    assert all(np.isfinite(x).all() for x in gradients)
    expected = (exact(1e-5) - exact(-1e-5)) / 2e-5
    result = sum((x * y).sum() for x, y in zip(gradients, along))
    scale = np.sqrt(sum((x**2).sum() for x in gradients))
    assert abs(result - expected) <= 1e-5 * max(scale, abs(expected))


@pytest.mark.backends("jax", "tensorflow")
@pytest.mark.parametrize(("rule", "decay", "strengths"), [CASES[4]])
def test_compiled_loops_over_chunks_equal_a_loop(rule, decay, strengths):
    """Only compiled functions run the loops of these backends."""
    arguments = inputs(70, rule, decay, strengths)
    mask, names = arguments.pop("mask"), [*arguments]

    def run(*tensors):
        return rule_of(arguments)(**dict(zip(names, tensors)), mask=mask)

    results = kernels.compiled(run, [], False)(*arguments.values())
    for result, expected in zip(results, loop(**arguments, mask=mask)):
        assert_near(result, expected)


# The published recurrences, written anew in NumPy: the gated delta rule reads before
# it writes β (v − Sᵀ k), with the query scaled by 1/√D; linear attention as a masked
# product.
def gated_delta_rule(query, key, value, beta, log_decay):
    state, outputs = np.zeros((B, H, D, V)), []
    for q, k, v, b, g in zip(
        *(np.swapaxes(x, 0, 1) for x in (query, key, value, beta, log_decay))
    ):
        state = state * np.exp(g)[..., None, None]
        error = b[..., None] * (v - np.einsum("bhdv,bhd->bhv", state, k))
        state = state + np.einsum("bhd,bhv->bhdv", k, error)
        outputs.append(np.einsum("bhdv,bhd->bhv", state, q * D**-0.5))
    return np.stack(outputs, 1)


def test_equals_the_published_gated_delta_rule():
    arguments = inputs(100, "delta", "head", "equal")
    del arguments["mask"]
    wide = {name: x.astype("float64") for name, x in arguments.items()}
    expected = gated_delta_rule(
        wide["query"], wide["key"], wide["value"], wide["erase"], wide["log_decay"]
    )
    scaled = {**arguments, "query": arguments["query"] * D**-0.5}
    assert_near(fast_weights.delta_rule(**scaled)[0], expected)


def test_equals_the_published_chunks_of_the_delta_rule():
    """T = (I + tril(β K Kᵀ, −1))⁻¹ diag(β); a chunk writes T V − T K S."""
    arguments = inputs(64, "delta", None, "equal")
    del arguments["mask"]
    q, k, v, beta = (np.swapaxes(x, 1, 2).astype("float64") for x in arguments.values())
    state, outputs = np.zeros((B, H, D, V)), []
    for start in range(0, 64, 16):
        now = [x[:, :, start : start + 16] for x in (q, k, v, beta)]
        products = np.tril(now[3][..., None] * now[1] @ np.swapaxes(now[1], 2, 3), -1)
        solved = np.linalg.inv(np.eye(16) + products) * now[3][:, :, None]
        written = solved @ now[2] - solved @ now[1] @ state
        pairs = np.tril(now[0] @ np.swapaxes(now[1], 2, 3))
        outputs.append(now[0] @ state + pairs @ written)
        state = state + np.swapaxes(now[1], 2, 3) @ written
    expected = np.swapaxes(np.concatenate(outputs, 2), 1, 2)
    assert_near(fast_weights.delta_rule(**arguments)[0], expected)


BAD = [
    (
        {"state": np.zeros((B, H, V, D))},
        r"`state` must have .*\(2, 3, 5, 7\).* Received: state.shape=\(2, 3, 7, 5\)",
    ),
    (
        {"chunk_size": 32},
        "must not exceed .* Received: chunk_size=32, a sequence of 11 steps",
    ),
    ({"chunk_size": 6}, "`chunk_size` must be a power of two. Received: chunk_size=6"),
    ({"query": np.zeros((B, 7, H, D))}, r"`query` must have shape \(2, 11, 3, 5\)"),
    (
        {"log_decay": np.zeros((B, 11, H, V))},
        r"`log_decay` must have shape \(2, 11, 3\) or \(2, 11, 3, 5\)",
    ),
    (
        {"key": np.zeros((B, 11, D))},
        "`key` must have shape .batch, length, heads, width.",
    ),
    (
        {"erase": np.zeros((B, 11, H, D)), "write": None},
        "`write` must be given where `erase` has channels",
    ),
    ({"mask": np.ones((B, 7), "bool")}, r"`mask` must have shape \(2, 11\)"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_inputs(changes, message):
    with pytest.raises(ValueError, match=message):
        fast_weights.delta_rule(**{**inputs(11), **changes})


@pytest.mark.parametrize("call", [fast_weights.weights, fast_weights.last_keys])
@pytest.mark.parametrize("width", [1, V])
def test_weights_refuse_write_strengths_of_channels(call, width):
    """The length is V, so that unit vectors have as many channels."""
    arguments = inputs(V)
    del arguments["value"]
    if call is fast_weights.last_keys:
        del arguments["query"]
    arguments["write"] = np.ones((B, V, H, width), "float32")
    message = r"`write` must have shape \(2, 7, 3\), to fit the other arguments"
    with pytest.raises(ValueError, match=message):
        call(**arguments)


@pytest.mark.backends("all")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_of_half_precision_are_float32(dtype):
    """TensorFlow does not add numbers of two dtypes."""
    key = tensor(inputs(6)["key"], dtype)
    weights = fast_weights.weights(key, key)
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    expected = np.tril(np.einsum("bthd,bshd->bhts", *[to_numpy(key)] * 2))
    assert_near(weights, expected)


def test_a_decay_of_zero_forgets_all():
    arguments = {n: x for n, x in inputs(11).items() if n not in ("state", "mask")}
    log_decay = np.full((B, 11, H), -0.1, "float32")
    log_decay[:, 6] = -np.inf
    output, _ = fast_weights.delta_rule(**{**arguments, "log_decay": log_decay})
    late = {n: x[:, 6:] for n, x in arguments.items()}
    late["log_decay"] = log_decay[:, 6:]
    expected, _ = fast_weights.delta_rule(**late)
    np.testing.assert_allclose(to_numpy(output)[:, 6:], to_numpy(expected), atol=1e-5)
