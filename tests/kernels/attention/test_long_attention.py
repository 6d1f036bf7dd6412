"""Attention tile by tile, against a float64 reference: small tiles of small tensors."""

import numpy as np
import pytest
import references
from calling import BACKEND, few_compiled
from gradients import gradient, second, tensor, to_numpy
from keras import ops

from keras_attention import kernels
from keras_attention.kernels.attention import reference
from keras_attention.kernels.attention import tiles as tiled
from keras_attention.ops import dot_product_attention

pytestmark = pytest.mark.backends("all")  # each backend has its own kernel

B, T, S, H, G, E, V = 2, 7, 11, 4, 2, 5, 3
# Of each case: how mask and bias are shaped, or None; and whether it is causal.
CASES = {
    "causal": (None, None, True),
    "padding": ((B, 1, 1, S), (1, 1, T, S), False),
    "everything": ((B, 1, T, S), (1, H, T, 1), True),
    "of heads": ((1, H, T, S), (B, 1, 1, S), False),
}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    sizes = {"LEAST": 1, "EAGER": 1, "FEWEST": 2, "MOST": 2, "SEGMENTS": 2}
    for name, size in sizes.items():
        monkeypatch.setattr(tiled, name, size)
    if BACKEND == "torch":
        own = kernels._attention
        monkeypatch.setattr(own, "CHUNKED", 1)
        monkeypatch.setattr(own, "CHUNK", 3)


def inputs(case):
    """Query, key, value and bias, and the mask, of which the first rows are False."""
    mask, bias, causal = CASES[case]
    shapes = [(B, T, H, E), (B, S, G, E), (B, S, G, V), *([bias] if bias else [])]
    arrays = references.normals(*shapes)
    if mask is not None:
        mask = np.random.default_rng(9).random(mask) < 0.6
        mask[0, :, 0] = False
    return arrays, mask, causal


def expected(probe, arrays, mask, causal):
    """The output, and the gradients of Σ probe · output, in float64."""
    bias = arrays[3] if len(arrays) > 3 else np.zeros((1, 1, 1, 1))
    allowed = np.tri(T, S, dtype=bool) if causal else np.ones((T, S), bool)
    allowed = np.broadcast_to(allowed if mask is None else allowed & mask, (B, H, T, S))
    *results, part = references.heads_attention(*arrays[:3], probe, allowed, bias)
    repeated = tuple(i for i, size in enumerate(bias.shape) if size == 1)
    return [*results, part.sum(repeated, keepdims=True)][: len(arrays) + 1]


def attention(arrays, mask, causal):
    mask = None if mask is None else ops.convert_to_tensor(mask)
    bias = arrays[3] if len(arrays) > 3 else None
    return dot_product_attention(*arrays[:3], mask, None, causal, bias)


@few_compiled("case", CASES, 3)
def test_output_and_gradients_equal_the_reference(case):
    arrays, mask, causal = inputs(case)
    probe = references.normal(B, T, H, V, seed=8)

    def loss(probe, *x):  # its gradient by the probe is the output
        return ops.sum(attention(x, mask, causal) * probe)

    found = gradient(loss, probe, *arrays)
    for slope, wanted in zip(found, expected(probe, arrays, mask, causal), strict=True):
        np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.backends("numpy", "torch", reason="they have a way of their own there")
@pytest.mark.parametrize("case", CASES)
def test_where_there_are_no_gradients(case):
    arrays, mask, causal = inputs(case)
    found = to_numpy(attention([tensor(x) for x in arrays], mask, causal))
    wanted = expected(np.zeros((B, T, H, V)), arrays, mask, causal)[0]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_half_precision():
    dtype = "bfloat16"
    arrays, mask, causal = inputs("padding")
    probe = references.rounded(references.normal(B, T, H, V, seed=8), dtype)

    def loss(probe, *x):
        return ops.sum(ops.cast(attention(x, mask, causal) * probe, "float32"))

    arrays = [references.rounded(x, dtype) for x in arrays]
    found = gradient(loss, probe, *arrays, dtype=dtype)
    for slope, wanted in zip(found, expected(probe, arrays, mask, causal), strict=True):
        error = 32 * references.ROUNDING[dtype] * np.abs(wanted).max()
        np.testing.assert_allclose(slope, wanted, atol=error)


def test_gradients_of_gradients_are_those_of_the_plain_form():
    arrays, mask, causal = inputs("padding")
    along = [references.normal(*x.shape, seed=30 + i) for i, x in enumerate(arrays)]
    hidden = None if mask is None else ops.convert_to_tensor(mask)

    def plain(query, key, value, bias):
        options = hidden, E**-0.5, causal, bias
        out = reference.dot_product_attention(query, key, value, *options)
        return ops.sum(out**2)

    def loss(*x):
        return ops.sum(attention(x, mask, causal) ** 2)

    found, wanted = (second(f, arrays, along) for f in (loss, plain))
    for ours, slope in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, slope, rtol=1e-3, atol=1e-4)


@pytest.mark.backends("jax", reason="JAX tells before it computes")
def test_memory_grows_with_the_length(monkeypatch):
    import jax

    monkeypatch.undo()  # the tiles' own sizes

    def scratch(length):
        x = jax.ShapeDtypeStruct((1, length, 2, 8), "float32")
        form = jax.grad(lambda *x: attention(x, None, False).sum(), argnums=(0, 1, 2))
        analysis = jax.jit(form).lower(x, x, x).compile().memory_analysis()
        return analysis.temp_size_in_bytes

    assert scratch(8192) < 3 * scratch(4096)


@pytest.mark.backends("jax")
@pytest.mark.parametrize("window", [None, 5])
def test_a_second_call_compiles_nothing(caplog, window):
    import jax

    x = tensor(np.ones((1, 800, 2, 4)), "float32")
    if window:
        assert tiled.plan(x, x, x, None, False, window) is not None
    dot_product_attention(x, x, x, sliding_window=window)
    with jax.log_compiles():
        dot_product_attention(x, x, x, sliding_window=window)
        assert "Compiling" not in caplog.text
        jax.jit(lambda x: x + 1)(np.ones(23))
    assert "Compiling" in caplog.text  # JAX's word
