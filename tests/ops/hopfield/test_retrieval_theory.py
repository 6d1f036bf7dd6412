"""What is proved of Hopfield networks holds in each of thousands of random cases.

The claims are in hopfield_theory.py, which runs in float64 in a process of its own.
"""

import json
import os
import sys

import hopfield_theory
import pytest
from calling import BACKEND, printed_by

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found():
    environment = {
        **os.environ,
        "KERAS_BACKEND": BACKEND,
        "JAX_ENABLE_X64": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    script = hopfield_theory.__file__
    text = printed_by("-W", "ignore", script, env=environment)
    return json.loads(text.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", hopfield_theory.CHECKS)
def test_no_case_violates(found, name):
    print(name, found[name])
    assert found[name]["violations"] == 0
    assert found[name]["cases"] >= 1000
    assert found[name]["says"] >= 1000  # of them, where the claim is not always true
