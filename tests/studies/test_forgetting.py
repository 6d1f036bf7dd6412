"""The command `forgetting`: what is trained, what is told, and what it refuses."""

import json

import numpy as np
import pytest
from calling import needs_training

from keras_attention.datasets import recall
from studies import command_line
from studies.forgetting import command as forgetting


def test_padding_changes_no_answer():
    stories = recall.generate(count=3, facts=4, seed=0)
    room = ((0, 0), (0, 2), (0, 0))
    longer = {**stories.inputs, "story": np.pad(stories.inputs["story"], room)}
    for attends in (True, False):
        model = forgetting.network(attends, units=5)
        found = [model.predict(x, verbose=0) for x in (stories.inputs, longer)]
        np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)
        assert found[0].shape == (3, recall.vocabulary_size())


def test_batches_take_turns_and_are_not_repeated():
    batches = forgetting.Batches(first=7, count=12)
    widths = [batches[n][0]["story"].shape[1] for n in range(len(batches))]
    assert widths == [2, 4, 8, 16, 32, 1] * 2
    assert not np.array_equal(batches[0][1], batches[6][1])


@needs_training
def test_the_command_writes_what_it_measured(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    for name, value in (("LENGTHS", (1, 2)), ("TESTED", 40), ("BATCH", 8)):
        monkeypatch.setattr(forgetting, name, value)
    path, picture = tmp_path / "runs.json", tmp_path / "curve.png"
    command = ["forgetting", "--steps", "8", "--seeds", "1", "--units", "8"]
    command += ["--wide", "0", "--json", str(path), "--plot", str(picture)]
    assert command_line.main(command) == 0
    assert picture.stat().st_size > 1000
    told = capsys.readouterr().out
    runs = json.loads(path.read_text("utf-8"))["runs"]
    assert [run["attends"] for run in runs] == [True, False]
    for run in runs:
        assert forgetting.name_of(run) in told
        assert set(run["accuracy"]) == {"1", "2"}
    curves = forgetting.series(runs)
    assert [one["name"] for one in curves][-1] == "guessing"
    assert curves[0]["y"] == [round(a, 4) for a in runs[0]["accuracy"].values()]


@pytest.mark.release
@needs_training
def test_one_fact_is_learnt(monkeypatch):
    monkeypatch.setattr(forgetting, "LENGTHS", (1,))
    monkeypatch.setattr(forgetting, "TESTED", 200)
    run = forgetting.train(attends=False, units=16, seed=0, steps=240)
    assert run["accuracy"]["1"] > 0.95


def test_errors_of_usage(capsys):
    for option, value in (("--steps", "0"), ("--seeds", "0"), ("--wide", "-1")):
        assert command_line.main(["forgetting", option, value]) == 2
        assert f"{option} must be at least" in capsys.readouterr().err
