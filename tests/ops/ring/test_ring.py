"""Attention over a sequence that is split over eight devices; see `many_devices.py`.

One process computes all cases in about 11 seconds of CPU time, because XLA's number of
devices belongs to a process.
"""

import json
import pathlib

import keras
import numpy as np
import pytest
from calling import printed_by

from keras_attention import ops

ON_JAX = pytest.mark.backends("jax", reason="only JAX splits tensors over devices")
WORKER = pathlib.Path(__file__).parent / "many_devices.py"
CASES = (
    *("keys", "masked", "causal", "causal, masked", "large scores", "bfloat16"),
    *("batch, too", "8,192"),
)


@pytest.fixture(scope="module")
def report():
    return json.loads(printed_by(WORKER))


@ON_JAX
@pytest.mark.parametrize("name", CASES)
def test_the_output_and_its_gradients_are_exact(report, name):
    bound = 1e-2 if name == "bfloat16" else 1e-5
    assert len(report[name]["errors"]) == 4
    assert max(report[name]["errors"]) < bound
    assert all(report[name]["split"])


@ON_JAX
def test_rows_without_keys_are_zero(report):
    assert report["zeros"]
    assert report["zero gradients"]


@ON_JAX
def test_the_devices_must_divide_the_length(report):
    assert "must divide the lengths of `query` and `key`" in report["odd length"]


@ON_JAX
def test_a_batch_stays_split_over_another_axis(report):
    assert report["batch, too"]["gathers"] == 0


@ON_JAX
def test_a_device_holds_its_part_of_the_sequence(report):
    """Keys and values that travel need a second buffer, so it is not an eighth."""
    assert report["sizes"]["forward gathers"] == 0
    assert report["sizes"]["gradient gathers"] == 0
    assert report["sizes"]["forward"] <= 0.15
    assert report["sizes"]["gradient"] <= 0.15


def one_device():
    return keras.distribution.DeviceMesh(
        (1,), ("sequence",), keras.distribution.list_devices()[:1]
    )


@ON_JAX
def test_one_device_is_a_ring_too():
    x = np.random.default_rng(0).normal(size=(2, 6, 2, 4)).astype("float32")
    wanted = ops.dot_product_attention(x, x, x, is_causal=True)
    found = ops.ring_attention(x, x, x, one_device(), is_causal=True)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@ON_JAX
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_nan_and_infinity_spread_as_on_one_device(number):
    x = np.random.default_rng(0).normal(size=(2, 6, 2, 4)).astype("float32")
    x[0, 3, 0, 0] = number
    wanted = np.asarray(ops.dot_product_attention(x, x, x, is_causal=True))
    found = np.asarray(ops.ring_attention(x, x, x, one_device(), is_causal=True))
    assert np.isnan(wanted).any()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))


@ON_JAX
def test_bad_arguments_are_named():
    x = np.ones((2, 6, 2, 4), "float32")
    with pytest.raises(ValueError, match="`device_mesh` must be"):
        ops.ring_attention(x, x, x, None)
    with pytest.raises(ValueError, match="`axis` must be an axis"):
        ops.ring_attention(x, x, x, one_device(), axis="model")
    with pytest.raises(ValueError, match="the same batch size"):
        ops.ring_attention(x[:1], x, x, one_device())
    with pytest.raises(ValueError, match="`mask` must"):
        ops.ring_attention(x, x, x, one_device(), mask=np.ones((2, 5), bool))


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX splits tensors")
def test_other_backends_refuse():
    x = np.ones((2, 6, 2, 4), "float32")
    with pytest.raises(RuntimeError, match="needs the JAX backend"):
        ops.ring_attention(x, x, x, None)
