"""The study `sets`: its networks, its sets, and what the command writes."""

import json

import numpy as np
import pytest
from calling import needs_training
from gradients import to_numpy

from studies import command_line
from studies.sets import command as study


@pytest.mark.parametrize("name", study.PUBLISHED)
def test_the_order_of_the_elements_changes_no_answer(name):
    model = study.network(name, {**study.SETTINGS, "dim": 8})
    x = np.random.default_rng(0).uniform(0, 100, (3, 7, 1)).astype("float32")
    found = to_numpy(model(x))
    assert found.shape == (3, 1)
    np.testing.assert_allclose(to_numpy(model(x[:, ::-1])), found, rtol=1e-4, atol=1e-4)


def test_sets_have_all_sizes_and_are_not_repeated():
    sets = study.Sets(200, (0, 1), study.SETTINGS)
    x, y = zip(*(sets[n] for n in range(len(sets))))
    assert {len(one[0]) for one in x} == set(range(1, 11))
    assert all((one.max(1) == top).all() for one, top in zip(x, y))
    everything = np.concatenate([one.ravel() for one in x])
    assert 0 <= everything.min() < 0.1
    assert 99.9 < everything.max() <= 100
    assert len(np.unique(everything)) > 0.9 * len(everything)
    other = study.Sets(1, (1, 1), study.SETTINGS)[0][1]
    assert not np.array_equal(other, y[0])


@needs_training
def test_the_command_resumes_and_writes_what_it_measured(tmp_path, capsys):
    out, path = tmp_path / "runs.jsonl", tmp_path / "sets.json"
    command = ["sets", "--architecture", "max", "--steps", "11", "--tested", "2"]
    command += ["--out", str(out)]
    assert command_line.main([*command, "--seeds", "0"]) == 0
    first = out.read_text("utf-8")
    assert command_line.main([*command, "--seeds", "0", "1", "--json", str(path)]) == 0
    assert out.read_text("utf-8").startswith(first)
    runs = json.loads(path.read_text("utf-8"))["runs"]
    assert [run["seed"] for run in runs] == [0, 1]
    assert len(runs[0]["result"]["losses"]) == 10
    text = study.tables({"sets": {"runs": runs}})["maximum"]
    assert text in capsys.readouterr().out
    assert "| rFF + pooling (max) | 16,833 | 0.1355 ± 0.0074 | " in text


def test_errors_of_usage(capsys):
    for option, value in (("--steps", "0"), ("--seeds", "-1")):
        assert command_line.main(["sets", option, value]) == 2
        assert f"{option} must be at least" in capsys.readouterr().err
