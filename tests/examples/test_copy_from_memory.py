"""The example of copying as a user runs it."""

import pytest
from calling import generate_few, run_example, short_and_long

from keras_attention.datasets import algorithms


@pytest.mark.parametrize(("options", "learns"), short_and_long(("--steps", 4), ()))
def test_a_memory_learns_to_copy(options, learns, tmp_path, monkeypatch):
    patch = None if learns else monkeypatch
    if patch:
        generate_few(patch, algorithms, "copy")
    options = "copy_from_memory.py", "--task", "copy", *options
    done = run_example(*options, folder=tmp_path, patch=patch)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    tested = [x for x in lines if x.startswith("bits right, ")]
    assert len(tested) == 2  # new sequences, and longer ones
    for line in tested:
        assert float(line.split()[-1].rstrip("%")) >= (99 if learns else 30)
    assert "loaded again: the same answers" in done.stdout
    for name in ("copy.keras", "copy.png"):
        assert (tmp_path / "memory" / name).stat().st_size > 1000
