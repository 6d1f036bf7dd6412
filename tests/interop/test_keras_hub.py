"""KerasHub's samplers drive our steps, ours drive its models: a process a backend."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest
from processes import environment

WORKER = pathlib.Path(__file__).parent / "hub_worker.py"


@pytest.mark.skipif(
    importlib.util.find_spec("keras_hub") is None, reason="keras_hub is not installed"
)
@pytest.mark.parametrize("backend", ["jax", "tensorflow", "torch"])
def test_samplers_and_models_of_both(backend, tmp_path):
    given = environment(backend, tmp_path)
    done = subprocess.run(
        [sys.executable, str(WORKER)], env=given, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{backend}:\n{done.stderr[-4000:]}"
