"""The example of bags as a user runs it, for two epochs."""

import os
import pathlib
import subprocess
import sys

import keras
import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "examples" / "bags.py"
BACKEND = keras.config.backend()
DATA = os.environ.get("KERAS_ATTENTION_DATA", "")
TIGER = pathlib.Path(DATA) / "mil" / "tiger.mat"
RUNS = BACKEND in ("jax", "tensorflow", "torch")


def run(folder, *options, **environment):
    return subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), *options],
        cwd=folder,
        env={**os.environ, "KERAS_BACKEND": BACKEND, **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(not RUNS, reason="the example has no such backend")
@pytest.mark.skipif(
    not (DATA and TIGER.is_file()), reason="KERAS_ATTENTION_DATA has no tiger.mat"
)
def test_from_a_file_to_where_it_looked(tmp_path):
    options = ("--data", str(TIGER), "--folds", "1", "--epochs", "2")
    done = run(tmp_path, *options, KERAS_ATTENTION_DATA="")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "200 bags of 1 to 13 instances" in done.stdout
    area = float(done.stdout.split("mean AUC ")[1].split(",")[0])
    assert area > 60  # of 100, where chance has 50
    assert "the surest tiger of the last fold" in done.stdout
    assert "loaded again: the same answers" in done.stdout
    assert (tmp_path / "bags" / "model.keras").stat().st_size > 1000


@pytest.mark.skipif(BACKEND != "torch", reason="the same on each backend; torch starts")
def test_without_a_file_bags_are_made(tmp_path):
    done = run(tmp_path, "--folds", "1", "--epochs", "1", KERAS_ATTENTION_DATA="")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Next: get tiger.mat by hand" in done.stdout
    assert "600 bags of 8 to 8 instances" in done.stdout
    assert "the surest signal of the last fold" in done.stdout
    assert "loaded again: the same answers" in done.stdout


@pytest.mark.skipif(BACKEND != "torch", reason="the same on each backend; torch starts")
def test_a_file_that_is_named_must_be_there(tmp_path):
    done = run(tmp_path, "--data", "nowhere.mat")
    assert done.returncode == 1
    assert "There is no file nowhere.mat" in done.stderr
    assert "Traceback" not in done.stderr
