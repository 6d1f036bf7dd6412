"""The benchmark of captions, on digits made here."""

import json

import numpy as np
import pytest

from keras_attention.datasets import canvases, mnist
from studies import command_line
from studies.captions import command, data, encoder, report, settings, training
from studies.command_line import UsageError


def strokes(split):
    """Ten kinds of pictures: a square of ink with a hole."""
    labels = np.arange(100, dtype=np.uint8) % 10
    images = np.zeros((100, 28, 28), np.uint8)
    images[:, 8:16, 8:16] = 255
    for image, label in zip(images, labels):
        image[9 + label // 4 * 2, 9 + label % 4 * 2] = 0
    return mnist.Digits(images, labels)


@pytest.mark.slow
@pytest.mark.backends("torch")
def test_runs_end_in_a_file_and_go_on_from_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(data.mnist, "load", strokes)
    monkeypatch.setattr(settings, "TEST", 6)
    small = {"filters": [2, 2, 3], "width": 3, "canvases": 4}
    monkeypatch.setattr(command, "ENCODER", {**command.ENCODER, **small})
    small = {"canvases": 6, "embedding_dim": 4, "units": 4, "attention_units": 3}
    monkeypatch.setattr(command, "DECODER", {**command.DECODER, **small})
    out, results = tmp_path / "runs.jsonl", tmp_path / "results.json"
    given = ["captions", "--encoder-epochs", "1", "--epochs", "1", "--seeds", "3"]
    given += ["--out", str(out), "--json", str(results), "--dev"]
    given += ["--weight", "0.25", "--expected-rate", "0"]
    pictures = ["--attention", "reinforce", "--pictures", str(tmp_path)]
    assert command_line.main([*given, *pictures]) == 0
    assert (tmp_path / "reinforce-3.png").stat().st_size > 1000
    monkeypatch.setattr(data, "train_encoder", None)  # it is read from its file
    assert command_line.main([*given, "--attention", "soft"]) == 0
    before = out.read_text()
    assert len(before.splitlines()) == 2
    monkeypatch.setattr(command, "prepare", None)  # nothing is left to do
    assert command_line.main([*given, "--attention", "reinforce"]) == 0
    assert out.read_text() == before
    (run,) = json.loads(results.read_text())["runs"]
    assert run["attention"] == "reinforce"
    assert run["settings"]["dev"] is True
    decoder = run["settings"]["decoder"]
    assert (decoder["weight"], decoder["expected_rate"]) == (0.25, 0)
    assert "reinforce, seed 3: {" in capsys.readouterr().out
    cache = out.with_name("runs.jsonl.encoder.keras")
    own = run["settings"]
    assert encoder.read_encoder(own, cache)[0] is not None
    with pytest.raises(UsageError, match="has other settings or another backend"):
        encoder.read_encoder({**own, "dev": False}, cache)
    monkeypatch.setattr(encoder.keras.config, "backend", lambda: "another")
    with pytest.raises(UsageError, match="has other settings or another backend"):
        encoder.read_encoder(own, cache)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--epochs", "0", "must be at least 1. Received: 0"),
        ("--encoder-epochs", "-2", "must be at least 1. Received: -2"),
        ("--weight", "-1", "must be at least 0. Received: -1.0"),
        ("--expected-rate", "1.5", "must be from 0 to 1. Received: 1.5"),
    ],
)
def test_what_the_command_refuses(option, value, message, capsys):
    assert command_line.main(["captions", option, value]) == 2
    assert f"{option} {message}" in capsys.readouterr().err


def test_the_settings_by_default():
    parser = command.argparse.ArgumentParser()
    command.add_arguments(parser)
    args = parser.parse_args([])
    assert (args.weight, args.expected_rate, args.epochs) == (0.03, 0.5, 6)
    assert args.encoder_epochs == 10
    assert args.seeds == [0, 1, 2]


def test_scores_of_known_captions_and_attention(monkeypatch):
    texts = ["a 1", "a 2 above a 3", "a 4", "a 5"]
    boxes = np.full((4, canvases.LENGTH, 4), -1)
    boxes[0, 1] = 0, 0, 32, 32  # the digit of the first caption fills a cell of four
    boxes[2, 1] = 0, 0, 64, 32  # that of the third one fills two

    class Writes:
        def generate(self, features, max_length):
            assert max_length == canvases.LENGTH
            return [
                canvases.VOCABULARY.encode(text)
                for text in ("a 1", "a 3 above a 2", "a 4", "a 5")
            ]

    weights = np.zeros((4, canvases.LENGTH, 4), "float32")
    weights[:, :] = [0.75, 0.25, 0, 0]
    weights[2] = [0.25, 0, 0.25, 0.5]
    monkeypatch.setattr(training, "attended", lambda *_: weights)
    inputs = {"target": np.zeros((4, canvases.LENGTH), "int32")}
    none = np.zeros((4, canvases.LENGTH))
    vectors = canvases.Vectors(inputs, none, none, boxes)
    test = data.Data(np.zeros((4, 2, 2, 3)), vectors, texts)
    scores = training.scores(Writes(), test)
    # Of the digits: the means of 0.75 and 0.5, and of one cell and two cells of four.
    assert scores == {"exact": 75, "on_digit": 62.5, "on_digit_if_even": 37.5}


def test_a_mean_of_several_runs_has_a_standard_deviation():
    def run(kind, seed, exact):
        result = {"exact": exact, "on_digit": 50.0, "decoder_cpu_seconds": 3.0}
        return {"attention": kind, "seed": seed, "result": result}

    table = report.table([run("soft", 0, 94), run("soft", 1, 96), run("hard", 0, 90)])
    assert "| soft | 95.0 ± 1.4 (94.0, 96.0) | 50.0 ± 0.0 (" in table  # n − 1
    assert table.endswith("| hard | 90.0 | 50.0 | 3 s |")


def test_digits_of_the_test_are_left_out(monkeypatch):
    monkeypatch.setattr(data.mnist, "load", strokes)
    assert len(data.digits(False).labels) == 100
    known = strokes("test")
    known.images[:, 27, 27] = 1 + np.arange(100)  # tells the digits apart
    monkeypatch.setattr(data.mnist, "load", lambda _: known)
    kept = {int(image[27, 27]) for image in data.digits(True).images}
    seen = set()
    monkeypatch.setattr(
        canvases, "_ink", lambda image, i: seen.add(int(image[27, 27])) or image[8:16]
    )
    canvases.generate(1, part="test", digits=known)
    assert kept == {*range(1, 101)} - seen
    assert len(seen) == 20


def test_without_data(monkeypatch):
    def nothing(split):
        raise data.DataNotFoundError("no file")

    monkeypatch.setattr(data.mnist, "load", nothing)
    with pytest.raises(UsageError, match="no file"):
        data.digits(True)
