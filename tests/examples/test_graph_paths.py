"""The example of ways in graphs as a user runs it."""

import pytest
from calling import run_example, short_and_long


@pytest.mark.parametrize(("minutes", "learns"), short_and_long(1e-3, 0.2))
def test_a_memory_finds_the_way(minutes, learns, tmp_path, monkeypatch):
    options = "graph_paths.py", "--minutes", minutes
    patch = None if learns else monkeypatch
    done = run_example(*options, folder=tmp_path, patch=patch)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    first = next(line for line in lines if line.startswith("lesson 1"))
    found, by_lot = (float(x.rstrip("%,")) for x in first.split()[-2:])
    assert found > by_lot if learns else 0 <= found <= 100
    (way,) = [line for line in lines if line.startswith("the way from")]
    assert "->" in way
    assert "loaded again: the same ways" in done.stdout
    for name in ("path.png", "model.keras"):
        assert (tmp_path / "graph_paths" / name).stat().st_size > 1000
