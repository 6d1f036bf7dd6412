"""The example of ways in graphs as a user runs it, in a process of its own."""

import pytest
from calling import run_example


@pytest.mark.turns
@pytest.mark.backends("jax", reason="trains for a while; JAX is its default")
def test_a_memory_finds_the_way(tmp_path):
    done = run_example("graph_paths.py", "--minutes", 0.2, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    first = next(line for line in lines if line.startswith("lesson 1"))
    found, by_lot = (float(x.rstrip("%,")) for x in first.split()[-2:])
    assert found > by_lot
    (way,) = [line for line in lines if line.startswith("the way from")]
    assert "->" in way
    assert "loaded again: the same ways" in done.stdout
    for name in ("path.png", "model.keras"):
        assert (tmp_path / "graph_paths" / name).stat().st_size > 1000
