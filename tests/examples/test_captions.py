"""The example of captions as a user runs it."""

import pytest
from calling import generate_few, needs_data, run_example, short_and_long

from keras_attention.datasets import canvases

LONG = ("--canvases", 3000, "--digits", 4, "--decoder", 8, "--epochs", 2)
SHORT = ("--canvases", 32, "--digits", 1, "--decoder", 1, "--epochs", 1)


@needs_data
@pytest.mark.parametrize(("options", "learns"), short_and_long(SHORT, LONG))
def test_captions_are_written_and_drawn(options, learns, tmp_path, monkeypatch):
    """By chance 1 caption in about 170 is exact."""
    patch = None if learns else monkeypatch
    if patch:
        generate_few(patch, canvases)
    done = run_example("captions.py", *options, folder=tmp_path, patch=patch)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = {
        line.split(":")[0].strip(): float(line.split()[-1].rstrip("%"))
        for line in done.stdout.splitlines()
        if line.endswith("%")
    }
    least = 50 if learns else 0
    assert least <= figures["exact captions of canvases never seen"] <= 100
    assert least <= figures["attention on the digit being named"] <= 100
    assert "loaded again: the same captions" in done.stdout
    for name in ("model.keras", "attention.png"):
        assert (tmp_path / "captions" / name).stat().st_size > 1000
