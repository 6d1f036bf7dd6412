"""What each layer and model answers at the edge of the numbers.

A row in float32 is compared with the same row in float64: small and large inputs,
inputs far from the origin, NaN and infinity. A large input may overflow: the answer is
then not finite. A wrong finite number is a failure.
"""

import contextlib
import functools
import json
import zlib

import keras
import numpy as np
import pytest
from catalogue import ROWS
from test_contract import arrays, eager, plain

SMALL = (1e-4, 1.0, 1e4)
LARGE = (1e10, 1e18)
TOLERANCE = 1e-4  # of the largest number in the output
CHANGE = 1e-6  # of each input: how much rounding can change the answer
FLOATS = [
    row
    for row in ROWS
    if any(a.dtype.kind == "f" for a in arrays(row).values())
    and row.name != "associative_memory"  # it stores its patterns, and refuses NaN
]
# A NaN in these cannot reach the output.
UNUSED = {
    ("location_score", "key"),
    ("luong_attention_local_m", "key"),
    ("dnc_cell", "state_0"),  # the previous output
    ("dnc_cell_linkless", "state_0"),
    ("dnc_cell_more_slots", "state_0"),
    ("ntm_cell", "state_0"),
    ("sine_position", "inputs"),  # only its shape counts
    ("position_embedding", "inputs"),
}
# What Keras' layers or float32 cannot do: a backend, a row and a part of a test's name.
KNOWN = {
    ("tensorflow", "image_captioner", "nan"): "TensorFlow's max-pooling hides NaN",
    ("numpy", "decoder_block_of_other", "origin"): "Keras' variance is below 0",
    ("numpy", "depth_recurrence", "origin"): "Keras' variance is below 0",
    ("numpy", "origin[induced_set]"): "Keras' variance is below 0",
    ("", "hard_attention_reinforce", "0.0001"): "equal chances, since scores are 1e-8",
}
rows = pytest.mark.parametrize("row", FLOATS, ids=lambda row: row.name)


@pytest.fixture(autouse=True)
def known(request):
    for (backend, *parts), reason in KNOWN.items():
        name = request.node.name
        if backend in keras.config.backend() and all(part in name for part in parts):
            pytest.skip(reason)


def wide_numbers():
    """Lets JAX compute in float64."""
    if keras.config.backend() != "jax":
        return contextlib.nullcontext()
    import jax

    return jax.enable_x64(True)


@functools.cache
def made(index, dtype):
    """The row's layer in a dtype; the same weights in each."""
    keras.utils.set_random_seed(0)
    row = ROWS[index]
    config = json.dumps(keras.saving.serialize_keras_object(row.make()))
    config = config.replace('"float32"', f'"{dtype}"')  # of its parts too
    layer = keras.saving.deserialize_keras_object(json.loads(config))
    eager(row, layer, floats(arrays(row), dtype))
    rng = np.random.default_rng(7)
    for weight in sorted(layer.trainable_weights, key=lambda w: w.path):
        drawn = 0.5 * rng.normal(size=weight.shape)
        weight.assign(drawn.astype("float32").astype(dtype))
    return layer


def floats(inputs, dtype):
    return {k: a.astype(dtype) if a.dtype.kind == "f" else a for k, a in inputs.items()}


def answer(row, inputs, dtype):
    wide = wide_numbers() if dtype == "float64" else contextlib.nullcontext()
    with np.errstate(all="ignore"), wide:
        layer = made(ROWS.index(row), dtype)
        found = eager(row, layer, floats(inputs, dtype))
        found = map(plain, keras.tree.flatten(found))
        return [part.astype("float64") for part in found]


def changed(inputs, change):
    """The inputs in float32, each but a state changed by a function of the array."""
    return {
        name: change(array.astype("float64")).astype("float32")
        if array.dtype.kind == "f" and not name.startswith("state")
        else array
        for name, array in inputs.items()
    }


def compare(row, inputs, finite):
    """Compares float32 with float64; rounding of the inputs says what is close."""
    exact = answer(row, inputs, "float64")
    rng = np.random.default_rng(zlib.crc32(row.name.encode()))
    spread = [np.zeros_like(part) for part in exact]
    for _ in range(4):
        moved = {
            name: array.astype("float64") * (1 + CHANGE * rng.normal(size=array.shape))
            if array.dtype.kind == "f"
            else array
            for name, array in inputs.items()
        }
        for part, near, wide in zip(exact, answer(row, moved, "float64"), spread):
            with np.errstate(all="ignore"):
                np.fmax(wide, np.abs(near - part), out=wide)
    for part, found, wide in zip(exact, answer(row, inputs, "float32"), spread):
        known = np.isfinite(part)
        if finite:
            assert known.all()
            assert np.isfinite(found).all()
        assert not np.isfinite(found[~known]).any(), "finite where float64 is not"
        both = known & np.isfinite(found)
        if both.any():
            largest = np.abs(part[known]).max()
            wrong = np.abs(found[both] - part[both]).max() - TOLERANCE * largest
            over = wrong - 4 * np.nanmax(wide[both])
            assert over <= 0, f"off by {over / largest:.2g} of the largest number"


@rows
@pytest.mark.parametrize("scale", SMALL + LARGE)
def test_scales(row, scale):
    inputs = changed(arrays(row), lambda array: scale * array)
    compare(row, inputs, finite=scale in SMALL)


@rows
def test_far_from_the_origin(row):
    inputs = changed(arrays(row), lambda array: 1e4 + array)
    compare(row, inputs, finite=True)


@rows
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf], ids=str)
def test_not_finite(row, number):
    """NaN in a sample reaches its output, and no other sample's output."""
    inputs = arrays(row)
    before = answer(row, inputs, "float32")
    for name, array in inputs.items():
        if array.dtype.kind != "f":
            continue
        bad = array.copy()
        bad[(0,) * bad.ndim] = number
        given = {**inputs, name: bad}
        compare(row, given, finite=False)
        after = answer(row, given, "float32")
        if np.isnan(number) and (row.name, name) not in UNUSED:
            reached = [not np.isfinite(part[0]).all() for part in after if part.ndim]
            assert any(reached), f"a NaN in `{name}` does not reach the output"
        for old, new in zip(before, after):
            if old.ndim and len(old) == len(array):
                np.testing.assert_allclose(new[1:], old[1:], 1e-5, 1e-5)
