"""The example of dates as a user runs it, in a process of its own."""

import os
import pathlib
import subprocess
import sys

import keras
import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "examples" / "dates.py"
BACKEND = keras.config.backend()


@pytest.mark.skipif(BACKEND != "jax", reason="trains for a minute; JAX is its default")
def test_dates_are_read_and_written(tmp_path):
    environment = {**os.environ, "KERAS_BACKEND": BACKEND}
    arguments = ("--epochs", "4", "--pairs", "6000", "--date", "May 3, 2021")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = [x for x in done.stdout.splitlines() if x.startswith("exact on dates")]
    assert float(line.split()[-1].rstrip("%")) >= 95
    assert "May 3, 2021" in done.stdout
    assert "2021-05-03" in done.stdout
    assert "loaded again: the same answers" in done.stdout
    for name in ("model.keras", "alignment.png"):
        assert (tmp_path / "dates" / name).stat().st_size > 1000
