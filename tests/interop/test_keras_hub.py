"""KerasHub with this package: its samplers, its models, its weights, and our layer
inside of its models.

Each test runs in one process per backend.
"""

import importlib.util
import pathlib
import subprocess
import sys

import pytest
from processes import environment

FOLDER = pathlib.Path(__file__).parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("keras_hub") is None,
        reason="keras_hub is not installed",
    ),
]


def run(backend, tmp_path, *command):
    given = environment(backend, tmp_path)
    done = subprocess.run(
        [sys.executable, *command], env=given, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{backend}:\n{done.stderr[-4000:]}"


release = pytest.mark.release
OTHERS = [pytest.param(name, marks=release) for name in ("jax", "tensorflow")]


@pytest.mark.parametrize("backend", [*OTHERS, "torch"])
def test_samplers_and_models_of_both(backend, tmp_path):
    """On torch, also the weights of `transformers`, where it is installed."""
    is_there = importlib.util.find_spec("transformers") is not None
    more = ["transformers"] if backend == "torch" and is_there else []
    run(backend, tmp_path, str(FOLDER / "hub_worker.py"), *more)


@pytest.mark.parametrize(
    ("backend", "models"),
    [
        pytest.param("torch", ("gpt2",)),
        pytest.param("torch", ("xlnet", "whisper", "bert"), marks=release),
        pytest.param("jax", ("gpt2", "xlnet", "whisper", "bert"), marks=release),
    ],
)
def test_our_layer_in_place_of_the_one_of_keras(backend, models, tmp_path):
    run(backend, tmp_path, str(FOLDER / "hub_in_place.py"), "compare", *models)
