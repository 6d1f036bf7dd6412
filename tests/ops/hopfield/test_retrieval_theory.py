"""What is proved of Hopfield networks holds in each of thousands of random cases.

The claims are in hopfield_theory.py, which runs in float64 in a process of its own.
"""

import json
import os
import pathlib
import subprocess
import sys

import hopfield_theory
import keras
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found():
    environment = {
        **os.environ,
        "KERAS_BACKEND": keras.config.backend(),
        "JAX_ENABLE_X64": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    script = pathlib.Path(hopfield_theory.__file__)
    command = [sys.executable, "-W", "ignore", str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", hopfield_theory.CHECKS)
def test_no_case_violates(found, name):
    print(name, found[name])
    assert found[name]["violations"] == 0
    assert found[name]["cases"] >= 1000
    assert found[name]["says"] >= 1000  # of them, where the claim is not always true
