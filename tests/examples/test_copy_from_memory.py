"""The example of copying as a user runs it, in a process of its own."""

import pytest
from calling import run_example


@pytest.mark.turns
@pytest.mark.backends("jax", reason="trains for a minute; JAX is its default")
def test_a_memory_learns_to_copy(tmp_path):
    done = run_example("copy_from_memory.py", "--task", "copy", folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    tested = [x for x in lines if x.startswith("bits right, ")]
    assert len(tested) == 2  # new sequences, and longer ones
    for line in tested:
        assert float(line.split()[-1].rstrip("%")) >= 99
    assert "loaded again: the same answers" in done.stdout
    for name in ("copy.keras", "copy.png"):
        assert (tmp_path / "memory" / name).stat().st_size > 1000
