"""An AssociativeMemory that is split over eight devices; see `many_devices.py`.

One process computes all cases in about 15 seconds of CPU time, because XLA's number of
devices belongs to a process.
"""

import json
import pathlib

import keras
import numpy as np
import pytest
from calling import printed_by

from keras_attention.models import AssociativeMemory

ON_JAX = pytest.mark.backends("jax", reason="only JAX splits tensors over devices")
WORKER = pathlib.Path(__file__).parent / "many_devices.py"
CASES = (
    *("softmax, dot", "softmax, distance", "softmax1, distance", "softmax1, cosine"),
    *("hardmax, distance", "hardmax, dot", "sparsemax, dot", "sparsemax, distance"),
    *("entmax15, cosine", "few", "few, hardmax", "grid", "grid, sparsemax"),
)


@pytest.fixture(scope="module")
def report():
    return json.loads(printed_by(WORKER))


@ON_JAX
@pytest.mark.parametrize("name", CASES)
def test_several_steps_are_exact(report, name):
    assert report[name]["error"] < 1e-5
    assert report[name]["patterns"] == 0


@ON_JAX
@pytest.mark.parametrize("name", CASES)
def test_each_device_holds_its_part_and_nothing_is_gathered(report, name):
    """Except the number of the device with the largest score, one per query."""
    for shape in report[name]["gathered"]:
        assert "hardmax" in name
        assert shape.startswith("s32[8,5,1]")
    held = report[name]["held"]
    assert len(held) == 8
    if "few" not in name:  # which has 8 rows on each device, of which most are empty
        assert max(held) < (0.3 if "grid" in name else 0.17)


@ON_JAX
def test_the_operation_has_a_mesh(report):
    assert report["operation"] < 1e-5


@ON_JAX
def test_all_else_is_as_on_one_device(report):
    for name, error in report["operations"].items():
        assert error <= (2e-2 if name == "half precision" else 1e-5), name


@ON_JAX
def test_what_does_not_fit_is_said_and_moves_nothing(report):
    errors = report["errors"]
    assert (
        "`axis` must be an axis of `device_mesh`. Received: axis='rows'"
        in (errors["axis"])
    )
    assert "`device_mesh` must be a keras.distribution.DeviceMesh" in errors["mesh"]
    assert "`kind` must be 'modern' to split the patterns" in errors["binary"]
    assert "Received: kind='exponential'" in errors["binary"]
    assert "8 devices of the axis 'model' must divide the rows" in errors["rows"]
    assert errors["after"] == errors["binary, after"] == 0


@ON_JAX
def test_a_device_needs_an_eighth_of_the_memory(report):
    """Steps among a million patterns, which are only compiled."""
    for many, one in zip(report["parts"][::2], report["parts"][1::2], strict=True):
        assert many <= 0.15 * one


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX splits tensors")
def test_other_backends_refuse_and_lose_nothing():
    memory = AssociativeMemory()
    memory.store(np.eye(4))
    with pytest.raises(RuntimeError, match="`distribute` needs the JAX backend"):
        memory.distribute(object())
    memory.distribute(None)
    assert len(memory) == 4
    assert tuple(memory.retrieve(np.eye(4)).shape) == (4, 4)
