"""Attention in a sliding window, block by block, against a float64 reference."""

import numpy as np
import pytest
import references
from calling import BACKEND, few_compiled
from gradients import gradient, second, tensor, to_numpy
from keras import ops

from keras_attention.kernels.attention import reference
from keras_attention.kernels.attention import tiles as tiled
from keras_attention.layers import MultiHeadAttention
from keras_attention.ops import dot_product_attention

pytestmark = pytest.mark.backends("all")  # each backend has its own kernel

B, H, G, E, V = 2, 4, 2, 5, 3
# Of each case: T, S and the window; whether it is causal, and whether keys are hidden.
CASES = {
    "causal": (29, 29, 5, True, False),
    "both sides": (23, 31, 4, False, False),
    "padding": (29, 31, 3, True, True),
    "fewer keys": (37, 23, 3, False, True),
    "many keys": (11, 53, 6, False, True),
    "itself": (13, 17, 1, False, False),
    "few queries": (4, 60, 10, False, True),
    "few queries, causal": (4, 60, 10, True, False),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for name, size in {"LEAST": 1, "EAGER": 1}.items():
        monkeypatch.setattr(tiled, name, size)
    for name in ("BLOCK", "LARGE"):
        monkeypatch.setattr(tiled, name, 3)
    if BACKEND == "jax":
        from keras_attention.kernels.attention import jax as attention_jax

        monkeypatch.setattr(attention_jax, "SPAN", 2)


@pytest.fixture
def planned(monkeypatch):
    """The bands that kernels plan; None for calls without a band."""
    found, plan = [], tiled.plan

    def record(*arguments):
        found.append(plan(*arguments))
        return found[-1]

    monkeypatch.setattr(tiled, "plan", record)
    return found


def inputs(case):
    """Query, key and value, and the mask, which hides all keys of some windows."""
    queries, keys, _, _, padded = CASES[case]
    shapes = (B, queries, H, E), (B, keys, G, E), (B, keys, G, V)
    arrays = references.normals(*shapes)
    if not padded:
        return arrays, None
    mask = np.random.default_rng(9).random((B, 1, 1, keys)) < 0.7
    mask[0, ..., : keys // 2] = False
    return arrays, mask


def allowed(case, mask):
    queries, keys, window, causal, _ = CASES[case]
    t, s = np.arange(queries)[:, None], np.arange(keys)
    seen = (abs(t - s) < window) & ((s <= t) | (not causal))
    return np.broadcast_to(seen if mask is None else seen & mask, (B, H, queries, keys))


def expected(case, probe, arrays, mask):
    """The output, and the gradients of Σ probe · output, in float64."""
    return references.heads_attention(*arrays, probe, allowed(case, mask))[:-1]


def attention(case, arrays, mask):
    _, _, window, causal, _ = CASES[case]
    mask = None if mask is None else ops.convert_to_tensor(mask)
    options = {"is_causal": causal, "sliding_window": window}
    return dot_product_attention(*arrays, mask, **options)


def is_banded(planned):
    return BACKEND == "numpy" or (planned and None not in planned)


@few_compiled("case", CASES, 4)
def test_output_and_gradients_equal_the_reference(case, planned):
    arrays, mask = inputs(case)
    probe = references.normal(B, CASES[case][0], H, V, seed=8)

    def loss(probe, *x):  # its gradient by the probe is the output
        return ops.sum(attention(case, x, mask) * probe)

    found = gradient(loss, probe, *arrays)
    assert is_banded(planned)
    for slope, wanted in zip(found, expected(case, probe, arrays, mask), strict=True):
        np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.backends("numpy", "torch", reason="they have a way of their own there")
@pytest.mark.parametrize("case", CASES)
def test_where_there_are_no_gradients(case, planned):
    arrays, mask = inputs(case)
    found = to_numpy(attention(case, [tensor(x) for x in arrays], mask))
    assert is_banded(planned)
    wanted = expected(case, np.zeros((B, CASES[case][0], H, V)), arrays, mask)[0]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.backends("tensorflow", reason="XLA must know the sizes in a loop")
@few_compiled("case", ["padding", "causal", "both sides"])
def test_xla_compiles_the_blocks(case, planned):
    import tensorflow as tf

    arrays, mask = inputs(case)
    probe = references.normal(B, CASES[case][0], H, V, seed=8)

    @tf.function(jit_compile=True)
    def form(probe, *x):
        with tf.GradientTape() as tape:
            tape.watch((probe, x))  # the gradient by the probe is the output
            loss = tf.reduce_sum(attention(case, x, mask) * probe)
        return tape.gradient(loss, (probe, *x))

    found = form(*(tensor(x) for x in (probe, *arrays)))
    assert is_banded(planned)
    for slope, wanted in zip(found, expected(case, probe, arrays, mask), strict=True):
        np.testing.assert_allclose(to_numpy(slope), wanted, rtol=1e-4, atol=1e-5)


def test_half_precision():
    dtype, case = "bfloat16", "padding"
    arrays, mask = inputs(case)
    probe = references.normal(B, CASES[case][0], H, V, seed=8)
    probe = references.rounded(probe, dtype)

    def loss(probe, *x):
        return ops.sum(ops.cast(attention(case, x, mask) * probe, "float32"))

    arrays = [references.rounded(x, dtype) for x in arrays]
    found = gradient(loss, probe, *arrays, dtype=dtype)
    for slope, wanted in zip(found, expected(case, probe, arrays, mask), strict=True):
        error = 32 * references.ROUNDING[dtype] * np.abs(wanted).max()
        np.testing.assert_allclose(slope, wanted, atol=error)


def test_one_bad_query_does_not_affect_the_others():
    case = "causal"
    arrays, mask = inputs(case)
    arrays[0][0, 7] = np.nan
    found = to_numpy(attention(case, [tensor(x) for x in arrays], mask))
    bad = np.isnan(found).all((2, 3))
    assert bad[0, 7]
    assert bad.sum() == np.isnan(found).any((2, 3)).sum() == 1


def test_gradients_of_gradients_are_those_of_the_plain_form():
    case = "padding"
    arrays, mask = inputs(case)
    along = [references.normal(*x.shape, seed=30 + i) for i, x in enumerate(arrays)]
    seen = ops.convert_to_tensor(allowed(case, mask))

    def plain(*x):
        out = reference.dot_product_attention(*x, seen, E**-0.5, False)
        return ops.sum(out**2)

    def loss(*x):
        return ops.sum(attention(case, x, mask) ** 2)

    found, wanted = (second(f, arrays, along) for f in (loss, plain))
    for ours, slope in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, slope, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("causal", [True, False])
@few_compiled("position", [None, "rotary", "alibi"])
def test_the_layer_equals_its_explicit_form(position, causal, planned):
    x = references.normal(2, 31, 7, seed=3).astype("float32")
    mask = np.arange(31) < [[31], [9]]
    options = {"num_key_value_heads": 2, "position": position, "sliding_window": 4}
    layer = MultiHeadAttention(4, 6, **options)
    call = {"value_mask": mask, "query_mask": mask, "use_causal_mask": causal}
    wanted = layer(x, x, return_attention_scores=True, **call)[0]
    assert not planned  # explicit weights need no blocks
    found = layer(x, x, **call)
    if BACKEND != "numpy":  # a bias takes the plain path
        assert len(planned) == (position != "alibi")
    assert is_banded(planned) or position == "alibi"
    np.testing.assert_allclose(to_numpy(found), to_numpy(wanted), atol=1e-5)


def test_a_mask_of_pairs_takes_the_plain_path(planned):
    arrays, _ = inputs("causal")
    mask = np.random.default_rng(2).random((1, 1, 29, 29)) < 0.6
    found = to_numpy(attention("causal", [tensor(x) for x in arrays], mask))
    assert planned == [None] or BACKEND == "numpy"
    wanted = expected("causal", np.zeros((B, 29, H, V)), arrays, mask)[0]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.backends("numpy", "torch", reason="the check is the same")
def test_a_window_of_nothing_is_an_error():
    arrays, _ = inputs("causal")
    for wrong in (0, 2.5, True, "a"):
        for bias in (None, np.zeros((29, 29), "float32")):
            with pytest.raises(ValueError, match=f"sliding_window.* 1.*={wrong!r}"):
                dot_product_attention(*arrays, bias=bias, sliding_window=wrong)


@pytest.mark.backends("jax", reason="JAX tells before it computes")
def test_memory_grows_with_the_length(monkeypatch):
    import jax

    monkeypatch.undo()  # the blocks' own sizes

    def scratch(length):
        x = jax.ShapeDtypeStruct((1, length, 2, 8), "float32")

        def loss(*x):
            return dot_product_attention(*x, is_causal=True, sliding_window=256).sum()

        form = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
        analysis = form.lower(x, x, x).compile().memory_analysis()
        return analysis.temp_size_in_bytes

    assert scratch(8192) < 3 * scratch(4096) < 3 * 2**24


@pytest.mark.parametrize("window", [None, 4])
def test_an_empty_batch(window):
    arrays = [tensor(np.zeros((0, 29, heads, E), "float32")) for heads in (H, G, G)]
    found = dot_product_attention(*arrays, is_causal=True, sliding_window=window)
    assert tuple(found.shape) == (0, 29, H, E)
