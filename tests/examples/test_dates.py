"""The example of dates as a user runs it, in a process of its own."""

import pytest
from calling import run_example


@pytest.mark.turns
@pytest.mark.backends("jax", reason="trains for a minute; JAX is its default")
def test_dates_are_read_and_written(tmp_path):
    arguments = ("--epochs", "4", "--pairs", "6000", "--date", "May 3, 2021")
    done = run_example("dates.py", *arguments, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = [x for x in done.stdout.splitlines() if x.startswith("exact on dates")]
    assert float(line.split()[-1].rstrip("%")) >= 95
    assert "May 3, 2021" in done.stdout
    assert "2021-05-03" in done.stdout
    assert "loaded again: the same answers" in done.stdout
    for name in ("model.keras", "alignment.png"):
        assert (tmp_path / "dates" / name).stat().st_size > 1000
