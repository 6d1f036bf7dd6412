"""The benchmark of words: its questions, its scores, and a small run."""

import importlib.util
import json

import numpy as np
import pytest
from calling import needs_training

from studies import command_line
from studies.command_line import UsageError
from studies.words import questions, training

HAS_GENSIM = importlib.util.find_spec("gensim") is not None


def test_enough_was_written_down():
    pairs, analogies = questions.load()
    assert len(pairs) >= 200
    assert len(analogies) >= 60
    assert {*map(len, pairs)} == {2}
    assert {*map(len, analogies)} == {4}
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    assert len({tuple(line) for line in analogies}) == len(analogies)
    assert all(len({*line}) == len(line) for line in (*pairs, *analogies))


def test_what_vectors_know():
    # Around a circle: a word's nearest are those beside it.
    angles = np.arange(24) / 24 * 2 * np.pi
    vectors = np.stack([np.cos(angles), np.sin(angles)], 1).astype("float32")
    names = [f"w{i}" for i in range(24)]
    asked = questions.Questions(
        [["w0", "w5"], ["w0", "w6"], ["w23", "w1"]],
        [["w1", "w2", "w2", "w3"], ["w0", "w1", "w2", "w9"]],
    )
    known = questions.ask(names, vectors, asked)
    assert known.pairs.tolist() == [[True] * 2, [False] * 2, [True] * 2]
    assert known.analogies.tolist() == [True, False]
    kept = questions.unpacked(json.loads(json.dumps(questions.packed(known))))
    for one, other in zip(kept, known):
        np.testing.assert_array_equal(one, other)


def test_intervals_are_those_of_a_share():
    known = np.random.default_rng(0).random((1, 400)) < 0.7
    mean, low, high = questions.interval(known)
    assert mean == known.mean()
    half = 1.96 * np.sqrt(mean * (1 - mean) / 400)
    assert high - mean == pytest.approx(half, rel=0.1)
    assert mean - low == pytest.approx(half, rel=0.1)
    same = questions.interval(np.repeat(known, 3, axis=0))
    assert same == (mean, low, high)  # more runs are not more questions


@pytest.fixture
def folder(tmp_path, monkeypatch):
    lines = ["a man sees the red ball", "a woman sees the blue ball"] * 40
    pairs = [training.translation.Pair(text, text) for text in lines]
    monkeypatch.setattr(training.translation, "load", lambda *_: pairs)
    asked = questions.Questions([["red", "blue"]], [["man", "red", "woman", "blue"]])
    monkeypatch.setattr(questions, "load", lambda: asked)
    monkeypatch.setitem(training.SHARED, "dim", 8)
    monkeypatch.setitem(training.OURS, "batch_size", 32)
    return tmp_path


@pytest.mark.slow
@needs_training
def test_a_small_run(folder, capsys):
    systems = ["ours", "gensim"] if HAS_GENSIM else ["ours"]
    path = folder / "results.json"
    arguments = ["words", "--systems", *systems, "--seeds", "0", "--epochs", "2"]
    arguments += ["--out", str(folder / "runs"), "--json", str(path)]
    assert command_line.main(arguments) == 0
    table = capsys.readouterr().out
    report = json.loads(path.read_text())
    assert [run["system"] for run in report["runs"]] == systems
    for run in report["runs"]:
        assert run["result"]["words"] == 8
        assert run["result"]["passed"] == 2 * 80 * 6
        assert len(run["result"]["known"]["pairs"]) == 2
        assert run["system"] in table
    assert ("difference" in report["summary"]) == HAS_GENSIM
    # What is done is not done again.
    before = (folder / "runs").read_text()
    assert command_line.main(arguments) == 0
    assert (folder / "runs").read_text() == before


def test_errors_of_usage(folder, capsys, monkeypatch):
    assert command_line.main(["words", "--epochs", "0"]) == 2
    assert "--epochs must be at least 1" in capsys.readouterr().err

    def none(name):
        raise ImportError(name)

    monkeypatch.setattr(training.importlib, "import_module", none)
    with pytest.raises(UsageError, match="--systems ours"):
        training.gensims([], {**training.SHARED, **training.GENSIM}, 0)
