"""The example of copying as a user runs it, in a process of its own."""

import os
import pathlib
import subprocess
import sys

import keras
import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "examples" / "copy_from_memory.py"
BACKEND = keras.config.backend()


@pytest.mark.skipif(BACKEND != "jax", reason="trains for a minute; JAX is its default")
def test_a_memory_learns_to_copy(tmp_path):
    environment = {**os.environ, "KERAS_BACKEND": BACKEND}
    arguments = ("--task", "copy")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    tested = [x for x in lines if x.startswith("bits right, ")]
    assert len(tested) == 2  # new sequences, and longer ones
    for line in tested:
        assert float(line.split()[-1].rstrip("%")) >= 99
    assert "loaded again: the same answers" in done.stdout
    for name in ("copy.keras", "copy.png"):
        assert (tmp_path / "memory" / name).stat().st_size > 1000
