"""The example of bags as a user runs it, for two epochs."""

import pathlib

import pytest
from calling import DATA, needs_file, refusal_of_example, run_example


@pytest.mark.slow
@needs_file("mil", "tiger.mat")
def test_from_a_file_to_where_it_looked(tmp_path, monkeypatch):
    data = pathlib.Path(DATA, "mil", "tiger.mat")
    options = ("bags.py", "--data", data, "--folds", 1, "--epochs", 2)
    at = {"folder": tmp_path, "patch": monkeypatch}
    done = run_example(*options, **at, KERAS_ATTENTION_DATA="")
    assert "200 bags of 1 to 13 instances" in done.stdout
    area = float(done.stdout.split("mean AUC ")[1].split(",")[0])
    assert area > 60  # of 100, where chance has 50
    assert "the surest tiger of the last fold" in done.stdout
    assert "loaded again: the same answers" in done.stdout
    assert (tmp_path / "bags" / "model.keras").stat().st_size > 1000


@pytest.mark.slow
def test_without_a_file_bags_are_made(tmp_path, monkeypatch):
    options = ("bags.py", "--folds", 1, "--epochs", 1)
    at = {"folder": tmp_path, "patch": monkeypatch}
    done = run_example(*options, **at, KERAS_ATTENTION_DATA="")
    assert "Next: get tiger.mat by hand" in done.stdout
    assert "600 bags of 8 to 8 instances" in done.stdout
    assert "the surest signal of the last fold" in done.stdout
    assert "loaded again: the same answers" in done.stdout


def test_a_file_that_is_named_must_be_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = refusal_of_example("bags.py", "--data", "nowhere.mat", patch=monkeypatch)
    assert found[0] == 1
    assert "There is no file nowhere.mat" in found[1]
