"""The example of captions as a user runs it, in a process of its own."""

import os

import pytest
from calling import run_example

DATA = os.environ.get("KERAS_ATTENTION_DATA")


@pytest.mark.turns
@pytest.mark.backends("torch", reason="trains for a minute; torch is quickest")
@pytest.mark.skipif(
    not DATA, reason="KERAS_ATTENTION_DATA names no folder with MNIST's files"
)
def test_captions_are_written_and_drawn(tmp_path):
    """A few epochs; by chance 1 caption in about 170 is exact."""
    arguments = ["--canvases", "3000", "--digits", "4"]
    arguments += ["--decoder", "8", "--epochs", "2"]
    done = run_example("captions.py", *arguments, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = {
        line.split(":")[0].strip(): float(line.split()[-1].rstrip("%"))
        for line in done.stdout.splitlines()
        if line.endswith("%")
    }
    assert figures["exact captions of canvases never seen"] >= 50
    assert figures["attention on the digit being named"] >= 50
    assert "loaded again: the same captions" in done.stdout
    for name in ("model.keras", "attention.png"):
        assert (tmp_path / "captions" / name).stat().st_size > 1000
