"""The benchmark of captions, on digits made here."""

import json

import numpy as np
import pytest

from keras_attention.benchmarks import __main__ as commands
from keras_attention.benchmarks import captions
from keras_attention.benchmarks.errors import UsageError
from keras_attention.datasets import mnist


def strokes(split):
    """Ten kinds of pictures: a square of ink with a hole."""
    labels = np.arange(100, dtype=np.uint8) % 10
    images = np.zeros((100, 28, 28), np.uint8)
    images[:, 8:16, 8:16] = 255
    for image, label in zip(images, labels):
        image[9 + label // 4 * 2, 9 + label % 4 * 2] = 0
    return mnist.Digits(images, labels)


@pytest.mark.backends("torch")
def test_runs_end_in_a_file_and_go_on_from_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(captions.mnist, "load", strokes)
    monkeypatch.setattr(captions, "TEST", 6)
    small = {"filters": [2, 2, 3], "width": 3, "canvases": 4}
    monkeypatch.setattr(captions, "ENCODER", {**captions.ENCODER, **small})
    small = {"canvases": 6, "embedding_dim": 4, "units": 4, "attention_units": 3}
    monkeypatch.setattr(captions, "DECODER", {**captions.DECODER, **small})
    out, results = tmp_path / "runs.jsonl", tmp_path / "results.json"
    given = ["captions", "--encoder-epochs", "1", "--epochs", "1", "--seeds", "3"]
    given += ["--out", str(out), "--json", str(results), "--dev"]
    pictures = ["--attention", "reinforce", "--pictures", str(tmp_path)]
    assert commands.main([*given, *pictures]) == 0
    assert (tmp_path / "reinforce-3.png").stat().st_size > 1000
    monkeypatch.setattr(captions, "train_encoder", None)  # it is read from its file
    assert commands.main([*given, "--attention", "soft"]) == 0
    before = out.read_text()
    assert len(before.splitlines()) == 2
    monkeypatch.setattr(captions, "prepare", None)  # nothing is left to do
    assert commands.main([*given, "--attention", "reinforce"]) == 0
    assert out.read_text() == before
    (run,) = json.loads(results.read_text())["runs"]
    assert run["attention"] == "reinforce"
    assert run["settings"]["dev"] is True
    assert 0 <= run["result"]["exact"] <= 100
    assert "reinforce, seed 3: {" in capsys.readouterr().out
    assert commands.main(["captions", "--epochs", "0"]) == 2
    monkeypatch.undo()
    about = {"encoder": captions.ENCODER, "dev": False}
    cache = out.with_name("runs.jsonl.encoder.keras")
    with pytest.raises(UsageError, match="has other settings"):
        captions.read_encoder(about, cache)


def test_digits_of_the_test_are_left_out(monkeypatch):
    monkeypatch.setattr(captions.mnist, "load", strokes)
    assert len(captions.digits(False).labels) == 100
    kept = captions.digits(True).labels
    np.testing.assert_array_equal(
        kept, np.delete(np.arange(100), slice(4, 100, 5)) % 10
    )


def test_without_data(monkeypatch):
    def nothing(split):
        raise captions.DataNotFoundError("no file")

    monkeypatch.setattr(captions.mnist, "load", nothing)
    with pytest.raises(UsageError, match="no file"):
        captions.digits(True)
