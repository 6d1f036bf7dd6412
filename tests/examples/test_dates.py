"""The example of dates as a user runs it."""

import pytest
from calling import generate_few, run_example, short_and_long

from keras_attention.datasets import dates

LONG = ("--epochs", 4, "--pairs", 6000)
SHORT = ("--epochs", 1, "--pairs", 100)


@pytest.mark.parametrize(("options", "learns"), short_and_long(SHORT, LONG))
def test_dates_are_read_and_written(options, learns, tmp_path, monkeypatch):
    options = "dates.py", *options, "--date", "May 3, 2021"
    patch = None if learns else monkeypatch
    if patch:
        generate_few(patch, dates, most=100)
    done = run_example(*options, folder=tmp_path, patch=patch)
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = [x for x in done.stdout.splitlines() if x.startswith("exact on dates")]
    assert float(line.split()[-1].rstrip("%")) >= (95 if learns else 0)
    assert "May 3, 2021" in done.stdout
    assert "2021-05-03" in done.stdout or not learns
    assert "loaded again: the same answers" in done.stdout
    for name in ("model.keras", "alignment.png"):
        assert (tmp_path / "dates" / name).stat().st_size > 1000
