"""The benchmark on bags: its protocol on scores, its training on few made bags."""

import json
import struct

import numpy as np
import pytest
from calling import BACKEND, needs_training

from keras_attention.datasets import bags
from studies import command_line
from studies.bags import command, made, nested, report

on_jax = pytest.mark.backends("jax", reason="trains many networks with JAX")


def test_folds_share_each_class_evenly():
    labels = np.arange(130) % 13 < 4
    fold = nested.folds(labels, 3)
    for label in (False, True):
        counts = np.bincount(fold[labels == label], minlength=10)
        assert counts.max() - counts.min() <= 1
    assert (fold != nested.folds(labels, 4)).any()
    assert np.ptp(np.bincount(fold)) <= 1


def test_auc_is_how_often_a_positive_bag_scores_higher():
    labels = np.array([1, 0, 1, 0, 1])
    scores = np.array([0.3, 0.3, 2.0, -1.0, 0.1])
    assert nested.auc(labels, scores) == pytest.approx(100 * 4.5 / 6)
    assert nested.auc(labels, labels) == 100


def test_a_setting_is_chosen_by_bags_that_are_not_tested():
    labels = np.arange(60) % 2
    fold = nested.folds(labels, 0)
    seen = []

    def train(number, parts):
        seen.append((number, parts))
        # Setting 0 knows the bags that it was trained on, and no other; setting 1 knows
        # all but those of fold 4 in half of its pairs; of equals the first is taken.
        scores = np.where(parts, labels, 0.5)
        if number:
            scores = np.tile(labels, (len(parts), 1)).astype(float)
            scores[:10][:, fold == 4] = 0.5
        return scores

    result = nested.run(labels, 3, train, 0)
    assert [number for number, _ in seen] == [0, 1, 2]
    for _, parts in seen:
        assert parts.shape == (30, 60)
        pairs = [set(fold[~part].tolist()) for part in parts]
        assert [len(pair) for pair in pairs] == [2] * 20 + [1] * 10
        assert pairs[20:] == [{i} for i in range(10)]
        for i in range(10):  # each fold is compared on four others
            assert len(set.union(*(p for p in pairs[:20] if i in p)) - {i}) == 4
    assert result["chosen"] == [1] * 10
    assert result["outer"][0] == [50] * 10
    assert result["auc"] == result["outer"][1] == [100] * 10
    assert result["auc_of_five"] == [100] * 10  # the others outvote what is unsure
    expected = np.full(10, 100.0)
    expected[[3, 5]] = 100 - 50 / 4
    np.testing.assert_allclose(result["inner"][1], expected)


def test_the_first_setting_stays_unless_another_is_clearly_better():
    first = [90.0, 92, 94, 96]
    inner = [
        [first, first, first],
        [[90, 92, 94, 98], [93, 94, 96, 99], [80, 99, 99, 99]],
        [[91, 91, 91, 91], [92, 94, 97, 98], [90, 93, 94, 97]],
    ]
    assert nested.choose(np.array(inner)).tolist() == [0, 1, 0]


def test_the_interval_is_over_folds_and_repeats():
    random = np.random.default_rng(0)
    runs = [
        {
            "data": "tiger",
            "result": {
                "auc": (90 + 4 * random.normal(size=10)).tolist(),
                "auc_of_five": [95] * 10,
                "outer": [[90] * 10, [80] * 10],
                "chosen": [0] * 8 + [1] * 2,
                "cpu_seconds": 3,
                "seconds": 4,
            },
        }
        for _ in range(5)
    ]
    found = report.summary(runs)
    each = np.array([run["result"]["auc"] for run in runs])
    assert found["mean"] == pytest.approx(each.mean(), abs=0.01)
    low, high = found["interval"]
    # Means of 50 values of deviation 4 are this far apart, and somewhat more.
    assert 3.2 * 4 / 50**0.5 < high - low < 6.5 * 4 / 50**0.5
    assert found["of_five"] == 95
    assert found["each"] == [90, 80]
    assert found["chosen"] == [40, 10]
    assert found["deviation"] == pytest.approx(each.mean(1).std(ddof=1), abs=0.01)


def test_a_path_stands_apart_in_the_table():
    result = {"auc": [90.0], "outer": [[90.0]], "chosen": [0], "auc_of_five": 91.0}
    run = {"seed": 20, "result": {**result, "cpu_seconds": 1.0, "seconds": 1.0}}
    lines = report.table([{**run, "data": d} for d in ("tiger", "my/long_bags.csv")])
    assert "my/long_bags.csv  AUC  90.00" in lines
    assert "tiger             AUC  90.00" in lines


@pytest.fixture
def small(monkeypatch):
    """Forty bags of ±1, one half of them with a pattern of which there is one."""
    found = bags.bit_patterns(count=40, instances=3, bits=4, signals=1)
    wide = np.pad(found.instances, ((0, 0), (0, 1)), constant_values=3)
    monkeypatch.setattr(
        bags, "load", lambda name: bags.Bags(wide, found.bag, found.labels)
    )
    monkeypatch.setitem(command.MODEL, "dims", [8])
    monkeypatch.setitem(command.MODEL, "num_heads", 2)
    monkeypatch.setitem(command.TRAINING, "batch_size", 8)
    monkeypatch.setitem(command.TRAINING, "bags", 32)
    one = {"instance_dropout": 0.25, "rate": 2e-2}
    monkeypatch.setattr(command, "SETTINGS", [one])


@pytest.mark.release
@on_jax
def test_command(small, tmp_path, capsys):
    out, path = tmp_path / "runs.jsonl", tmp_path / "results.json"
    arguments = ["bags", "--data", "tiger", "--repeats", "2", "--epochs", "30"]
    arguments += ["--out", str(out), "--json", str(path)]
    assert command_line.main(arguments) == 0
    written = json.loads(path.read_text())
    assert written["summaries"]["tiger"]["mean"] > 90
    assert [run["seed"] for run in written["runs"]] == [20, 21]
    assert "published 91.3 ± 0.5" in capsys.readouterr().out
    # A finished repeat is not done again.
    assert command_line.main(arguments) == 0
    assert "repeat 20: AUC" not in capsys.readouterr().out
    assert command_line.main([*arguments[:5], "--out", str(out)]) == 2
    assert "other settings (training)" in capsys.readouterr().err


def write_mat(path, found):
    """Writes bags as a MATLAB file of format 5 with three dense arrays."""

    def element(kind, data):
        return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)

    def matrix(name, array):
        shape = element(5, np.array(array.shape, "<i4").tobytes())
        numbers = element(9, array.astype("<f8").tobytes("F"))
        flags = element(6, struct.pack("<II", 6, 0))
        return element(14, flags + shape + element(1, name.encode()) + numbers)

    labels = 2 * found.labels[found.bag][None] - 1
    path.write_bytes(
        b"MATLAB 5.0 MAT-file".ljust(124)
        + b"\x00\x01IM"
        + matrix("features", found.instances)
        + matrix("bag_ids", found.bag[None] + 1)
        + matrix("labels", labels)
    )


@on_jax
def test_bags_of_a_file(small, tmp_path, capsys):
    path, out = tmp_path / "own.mat", tmp_path / "results.json"
    write_mat(path, bags.load("tiger").take(np.arange(40) < 37))
    arguments = ["bags", "--data", str(path), "--repeats", "1", "--epochs", "30"]
    assert command_line.main([*arguments, "--json", str(out)]) == 0
    written = json.loads(out.read_text())
    (run,) = written["runs"]
    # Two folds of at most four bags are left out, and batches have eight.
    assert run["settings"]["training"]["bags"] == 24
    assert run["settings"]["data"] == {"bags": 37, "instances": 111, "features": 4}
    assert written["summaries"][str(path)]["mean"] > 80
    printed = capsys.readouterr().out
    assert "own.mat" in printed
    assert "published" not in printed


@pytest.mark.backends("torch", "jax")
def test_files_of_the_user_are_checked_first(tmp_path, capsys):
    path = tmp_path / "own.csv"
    assert command_line.main(["bags", "--data", "bits", "own.txt"]) == 2
    assert "or a path of a .mat or .csv file. Received: own.txt" in (
        capsys.readouterr().err
    )
    if BACKEND != "jax":
        assert command_line.main(["bags", "--data", "bits", str(path)]) == 2
        assert "other files need JAX" in capsys.readouterr().err
        return
    for lines, message in (
        (None, "own.csv"),
        (["1,1,2.5", "x"], "own.csv is damaged: line 2"),
        (
            [f"{i % 2},{i},{i}" for i in range(18)],
            "Received: 9 positive and 9 negative",
        ),
        ([f"{i % 2},{i},7" for i in range(20)], "must have a feature that varies"),
    ):
        if lines is not None:
            path.write_text("\n".join(lines))
        assert command_line.main(["bags", "--data", "bits", str(path)]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.release
@on_jax
def test_networks_see_their_own_bags_alone(small):
    from studies.bags.training import Learner, standards

    found = bags.load("tiger")
    parts = np.ones((2, 40), bool)
    parts[1, 10:] = False
    training = {**command.TRAINING, "epochs": 3, "bags": 8}
    model = {**command.MODEL, "instance_dropout": 0.5}
    before = Learner(found, model, training)(parts, 5)
    changed = found.instances.copy()
    changed[found.bag >= 10] *= -2
    labels = np.where(np.arange(40) < 10, found.labels, 1 - found.labels)
    after = Learner(bags.Bags(changed, found.bag, labels), model, training)(parts, 5)
    assert np.isfinite(before.logits).all()
    assert before.logits.shape == (2, 40)
    assert before.losses.shape == (2, 3)
    np.testing.assert_allclose(after.logits[1, :10], before.logits[1, :10], atol=1e-5)
    assert np.abs(after.logits[0, :10] - before.logits[0, :10]).max() > 1e-3
    mean, scale = standards(found, parts[1])
    seen = found.instances[found.bag < 10]
    np.testing.assert_allclose(mean, seen.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scale[:4], seen[:, :4].std(0), rtol=1e-5)
    assert scale[4] == 1  # this feature does not vary


@needs_training
def test_what_is_made_is_learned(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(
        made.MAKERS,
        "latch",
        lambda seed: bags.latch_sequences(200, 5, characters=4, seed=seed),
    )
    monkeypatch.setitem(made.LATCH, "rate", 2e-2)
    path = tmp_path / "results.json"
    arguments = ["bags", "--data", "latch", "--epochs", "6", "--json", str(path)]
    assert command_line.main(arguments) == 0
    (run,) = json.loads(path.read_text())["runs"]
    assert run["result"]["tested"] == 50
    assert len(run["result"]["accuracies"]) == 6
    assert run["result"]["accuracy"] == 1
    assert "latch     accuracy 1.0000" in capsys.readouterr().out


@pytest.mark.backends("torch", "jax")
def test_what_cannot_be_done_is_said(monkeypatch, tmp_path, capsys):
    assert command_line.main(["bags", "--epochs", "0"]) == 2
    assert "--epochs must be at least 1. Received: 0" in capsys.readouterr().err
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    assert command_line.main(["bags", "--data", "elephant"]) == 2
    said = capsys.readouterr().err
    assert ("put it at mil/elephant.mat" if BACKEND == "jax" else "need JAX") in said
