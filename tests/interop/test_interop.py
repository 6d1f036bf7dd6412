"""What needs several backends: files that travel, and exports that run elsewhere.

Each backend has a process of its own; see `worker.py`.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from worker import EXPORTS

WORKER = pathlib.Path(__file__).parent / "worker.py"
TRAINERS = ("jax", "tensorflow", "torch")
READERS = (*TRAINERS, "numpy", "openvino")


def work(command, folder, backend):
    environment = {**os.environ, "KERAS_BACKEND": backend}
    arguments = [sys.executable, str(WORKER), command, str(folder)]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} on {backend}:\n{done.stderr[-4000:]}"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    for backend in TRAINERS:
        work("train", folder, backend)
    return folder


@pytest.fixture(scope="module")
def served(trained):
    work("serve", trained, "tensorflow")
    return trained


@pytest.mark.parametrize("backend", TRAINERS)
def test_training_reaches_the_answers(trained, backend):
    data = np.load(trained / f"{backend}.npz")
    assert (data["logits"].argmax(-1) == data["answers"]).mean() > 0.9


@pytest.mark.parametrize("reader", READERS)
def test_files_travel(trained, reader):
    work("predict", trained, reader)
    for writer in TRAINERS:
        expected = np.load(trained / f"{writer}.npz")["logits"]
        found = np.load(trained / f"{writer}-read-by-{reader}.npy")
        np.testing.assert_array_equal(found.argmax(-1), expected.argmax(-1))
        if reader != "openvino":  # which may compute in half precision
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("backend", "kind"), [(b, kind) for b in TRAINERS for kind in EXPORTS[b]]
)
def test_exports_run_without_this_package(served, backend, kind):
    name = f"{backend}.onnx" if kind == "onnx" else f"{backend}-saved_model"
    expected = np.load(served / f"{backend}.npz")["logits"]
    found = np.load(served / f"{name}-served.npy")
    np.testing.assert_array_equal(found.argmax(-1), expected.argmax(-1))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
