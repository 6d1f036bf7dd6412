"""Weights of small random networks of `transformers` give the same numbers here."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest
from processes import environment

WORKER = pathlib.Path(__file__).parent / "transformers_worker.py"


@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None,
    reason="transformers is not installed",
)
def test_gpt2_and_bert(tmp_path):
    """In one process, since the import takes most of the time."""
    done = subprocess.run(
        [sys.executable, str(WORKER), str(tmp_path)],
        env=environment("torch", tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
