"""The commands `capacity` and `retrieval`: what they count, and what they refuse."""

import importlib.util
import json

import keras
import numpy as np
import pytest

from studies import command_line
from studies.capacity import command as capacity
from studies.retrieval import command as retrieval


@pytest.mark.parametrize(
    "point",
    [
        capacity.Point("", "classical", 40, 2, 12),
        capacity.Point("", "polynomial", 20, 3, 40),
        capacity.Point("", "exponential", 10, 0, 32),
    ],
    ids=lambda point: point.kind,
)
def test_as_many_bits_flip_as_expected(point):
    run = capacity.measure(point, bits=30_000)
    assert run["draws"] >= 8
    assert abs(run["wrong"] - run["expected"]) < 4 * run["error"] + 0.002
    assert run["name"] in capacity.table([run])


def test_the_series_have_their_curves():
    runs = [
        {**point._asdict(), "wrong": 0.01, "error": 0.001} for point in capacity.POINTS
    ]
    series = capacity.series(runs)
    assert [len(one["x"]) for one in series] == [6, 4, 4, 4]
    for one in series:
        points = [p for p in capacity.POINTS if p.name == one["name"]]
        assert one["curve_y"][0] == round(capacity.expected(points[0]), 6)
        assert one["curve_y"][-1] == round(capacity.expected(points[-1]), 6)


def test_half_hidden_patterns_come_back():
    rng = np.random.default_rng(0)
    patterns = np.sign(rng.normal(size=(11, 64))).astype("float32")
    run = retrieval.measure(patterns, b=8, most=5)
    assert run == {"stored": 11, "b": 8, "queries": 5, "one": 1.0, "rest": 1.0}
    run = retrieval.measure(patterns, b=0.1, most=11)
    assert run["one"] == run["rest"] == 0.0


@pytest.mark.skipif(
    importlib.util.find_spec("faiss") is None, reason="faiss is not installed"
)
def test_a_step_with_an_index_is_compared_with_one_without():
    patterns = np.sign(np.random.default_rng(0).normal(size=(31, 64))).astype("float32")
    run = retrieval.measure_index(patterns, 1, 5, 31)  # all are candidates
    assert run["left_out"] == run["bound"] == [0.0, 0.0]
    assert max(run["error"]) < 1e-5
    small, large = (retrieval.measure_index(patterns, b, 5, 4) for b in (0.1, 8))
    for run in (small, large):
        for left, bound in zip(run["left_out"], run["bound"]):
            assert left <= 1.01 * bound
    assert small["left_out"][0] > 0.5
    assert small["error"][0] > 0.1
    assert large["bound"][1] < 1e-3
    assert large["error"][1] < 1e-3
    assert "31 digits, b =  8, 4 candidates: bound" in retrieval.index_line(large)


def test_errors_of_usage(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    monkeypatch.setattr(keras.utils, "get_file", _offline)
    for asked, message in (
        (["capacity", "--bits", "0"], "--bits must be at least 1. Received: 0"),
        (["retrieval", "--queries", "0"], "--stored and --queries must be at least 1."),
        (["retrieval", "--stored", "0"], "--stored and --queries must be at least 1."),
        (["retrieval"], "t10k-images"),
        (["retrieval", "--count", "0"], "--count must be at least 1. Received: 0"),
    ):
        assert command_line.main(asked) == 2
        assert message in capsys.readouterr().err


def _offline(*args, **kwargs):
    raise OSError("no network")


def test_the_command_writes_what_it_measured(monkeypatch, tmp_path, capsys):
    points = [capacity.Point("one", "classical", 16, 2, 4)]
    monkeypatch.setattr(capacity, "POINTS", points)
    path = tmp_path / "runs.json"
    assert command_line.main(["capacity", "--bits", "1", "--json", str(path)]) == 0
    assert "wrong bits" in capsys.readouterr().out
    (run,) = json.loads(path.read_text("utf-8"))["runs"]
    assert run["name"] == "one"
