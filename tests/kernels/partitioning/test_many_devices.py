"""Kernels whose samples or heads are split over eight devices; see `many_devices.py`.

One process computes all cases that are selected, because the number of XLA's devices
belongs to a process. Nothing else compares partitioned programs with those of one
device.
"""

import json
import pathlib

import pytest
from calling import few_compiled, printed_by

pytestmark = [
    pytest.mark.slow,
    pytest.mark.backends("jax", reason="only JAX partitions programs"),
]

WORKER = pathlib.Path(__file__).parent / "many_devices.py"
CASES = (  # the first reach each partitioned kernel
    *("attention", "window, heads", "additive", "additive, one query"),
    *("links, fade", "links, follow", "memory step, sharp links"),
    *("attention, heads", "attention, heads of groups", "Hopfield layer"),
    *("attention, queries", "attention, dropout", "attention, bfloat16"),
    *("attention, vmap", "attention, batch and heads", "attention, odd batch"),
    *("window", "DNC", "DNC, sparse links"),
)
each_case = few_compiled("name", CASES, 7)
# The gradient of keys that all devices hold is the same on all devices: it is gathered
# after 2 groups were split. 6 samples cannot be split over 8 devices.
GATHERS = "attention, heads of groups", "attention, odd batch"
SIZES = "1,024 queries", "4,096 queries, heads"


@pytest.fixture(scope="module")
def report(request):
    """What the worker says of the cases that this run has selected."""
    tests = [item for item in request.session.items if item.path == request.path]
    names = {test.callspec.params["name"] for test in tests}
    report = json.loads(printed_by(WORKER, *names))
    assert report.keys() == names
    return report


@each_case
def test_a_kernel_equals_itself_on_one_device(report, name):
    bound = 1e-2 if "bfloat16" in name else 1e-5
    assert max(report[name]["error"]) < bound
    assert max(report[name]["gradients"]) < bound


@each_case
def test_results_and_gradients_are_split_as_the_inputs(report, name):
    assert all(report[name]["split"]) == (name != "attention, odd batch")
    assert all(report[name]["as_inputs"])
    assert bool(report[name]["gathered"]) == (name in GATHERS)


@few_compiled("name", SIZES)
def test_a_device_needs_an_eighth_of_the_memory(report, name):
    assert not report[name]["gathered"]
    assert report[name]["each"] <= 1.2 * report[name]["eighth"]
