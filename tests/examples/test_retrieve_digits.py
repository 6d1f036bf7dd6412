"""The example of half-hidden digits as a user runs it, on few of them."""

import gzip

import numpy as np
import pytest
from calling import needs_file, refusal_of_example, run_example

pytest.importorskip("matplotlib")

DIGITS = "t10k-images-idx3-ubyte.gz"


@pytest.mark.slow
@needs_file("mnist", DIGITS)
def test_from_files_to_a_picture(tmp_path, monkeypatch):
    options = ["--stored", "300", "--queries", "24", "--b", "1", "20", "--steps", "9"]
    options = "retrieve_digits.py", *options
    done = run_example(*options, folder=tmp_path, patch=monkeypatch)
    assert "300 digits stored, 24 asked for by their upper half" in done.stdout
    assert "b = 1: 0.0 % after one step" in done.stdout
    assert "b = 20: 100.0 % after one step" in done.stdout
    assert "loaded again: the same digits come back" in done.stdout
    folder = tmp_path / "retrieve_digits"
    for name in ("digits.png", "memory.keras"):
        assert (folder / name).stat().st_size > 1000


def test_damaged_digits_are_named(tmp_path, monkeypatch):
    """The next thing to try is told, and nothing else is drawn in their place."""
    folder = tmp_path / "mnist"
    folder.mkdir()
    images = np.zeros((3, 28, 28), np.uint8).tobytes()
    start = bytes((0, 0, 8, 3)) + np.array([3, 28, 28], ">u4").tobytes()
    (folder / DIGITS).write_bytes(gzip.compress(start + images[:-1]))
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"")
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    status, said = refusal_of_example("retrieve_digits.py", patch=monkeypatch)
    assert status == 1
    assert "is truncated or altered" in said
