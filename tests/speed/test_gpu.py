"""The command `gpu`: its masks, what it stores, what it does about errors."""

import json
import sys
import types

import keras
import numpy as np
import pytest
from calling import TRAINS
from checkout import ROOT

from speed import command_line, harness
from speed.gpu import command, masks, report, rows, timing, worker

BACKEND = keras.config.backend()
pytestmark = pytest.mark.skipif(not TRAINS, reason=f"{BACKEND} does not train")


@pytest.mark.parametrize("name", [*rows.MASKS, *rows.CAUSAL, "none", "causal"])
def test_a_mask_hides_as_much_as_its_name_says(name):
    mask = masks.Mask(name, {"B": 4, "T": 400, "H": 3, "window": 50})
    t = np.arange(400)
    allowed = np.stack([mask.allowed(n, t) for n in range(4)])
    if mask.hides:
        share = int(name.split()[1]) / 100
        assert mask.valid.mean() == pytest.approx(1 - share, abs=0.01)
        ends = mask.valid == np.sort(mask.valid, axis=1)[:, ::-1]
        assert ends.all() == name.startswith("padding")
    if mask.causal:
        assert not np.triu(allowed, 1).any()
    valid = allowed & mask.valid[:, :, None]
    assert valid.sum((1, 2)).mean() == pytest.approx(mask.pairs, rel=0.05)
    assert mask.ids.max() == (masks.TEXTS if name == "texts" else 1)


def test_the_slice_has_the_right_gradients():
    sizes = {"B": 4, "T": 24, "H": 3, "E": 5}
    mask = masks.Mask("ALiBi", sizes)
    x = [np.random.default_rng(n).normal(size=(4, 24, 3, 5)) for n in range(4)]
    part = masks.exact(mask, *x)

    def loss(*changed):
        output = masks.exact(mask, *changed, x[3]).results[0]
        return (output * x[3][part.example, part.queries, part.head]).sum()

    # One number of each tensor: of query 2 of the slice, and of key and value 1
    step, places = 1e-6, (part.queries[2], 1, 1)
    for n, (t, gradient) in enumerate(zip(places, part.results[1:])):
        losses = []
        for sign in (1, -1):
            changed = [y.copy() for y in x[:3]]
            changed[n][part.example, t, part.head, 3] += sign * step
            losses.append(loss(*changed))
        slope = gradient[2 if n == 0 else 1, 3]
        assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(slope, rel=1e-5)


def test_a_wrong_side_is_found():
    part = masks.Slice(0, np.array([1]), 0, [np.ones((1, 2))])
    assert part.error([np.ones((3, 2))]) == 0
    for wrong in (1.1, np.nan):
        with pytest.raises(harness.NumericsError, match="`output` differs by"):
            part.error([np.full((3, 2), wrong)])


def failing(error=None):
    raise error or MemoryError(f"no room in {sys.prefix}/lib for 8 GB")


def side(run=lambda: 0, check=lambda: 0.0):
    return lambda: timing.Side(run, check)


def measured(**sides):
    module = types.SimpleNamespace(
        make=lambda backend, sizes: sides,
        steps=lambda sizes: (harness.Step(2e9, 1e3, (1, 1, 1, 1)),),
    )
    row = types.SimpleNamespace(module=module, sizes={}, dtype="bfloat16", amount=None)
    timer = timing.Timer(BACKEND, quick=True)
    return worker.measure(row, BACKEND, timer, {"bfloat16": 1e12, "bytes": 1e9})


def test_a_peer_that_fails_leaves_the_others():
    row = measured(
        ours=side(),
        peer=side(),
        wrong=side(check=lambda: failing(harness.NumericsError("`output` differs"))),
        fails=failing,
        fails_later=side(run=failing),
    )
    assert row["status"] == "measured"
    assert [*row["sides"]] == ["ours", "peer"]
    assert row["sides"]["peer"]["pairs"] == 2
    assert row["floor_ms"] == pytest.approx(2)
    assert {*row["errors"]} == {"wrong", "fails", "fails_later"}
    assert row["errors"]["fails"] == "MemoryError: no room in …/lib for 8 GB"
    assert "wrong failed: NumericsError: `output` differs" in report.reasons(row)
    assert "; wrong failed" in report.cell(row)


def test_a_row_without_our_side_has_failed():
    row = measured(ours=failing, peer=side())
    assert row["status"] == "failed"
    assert report.reasons(row) == "failed: MemoryError: no room in …/lib for 8 GB"


FACTS = {"backend": "torch", "device": "a GPU, 570", "quick": False}
FACTS |= {"rates": {"bfloat16": 5e14, "float32": 5e13, "bytes": 4e12}}
RUNS = {date: {**FACTS, "versions": {"keras": date}} for date in ("2025", "2026")}


def stored(key, run="2026", **facts):
    peer = {"wall_ms": [3, 3, 3], "ratio": {"median": 1.5}, "verdict": harness.FASTER}
    ours = {"wall_ms": [2, 2, 2], "device_ms": [1, 1, 1]}
    sides = {"ours": ours, "SDPA": peer}
    sides = {name: {**x, "memory_bytes": 8} for name, x in sides.items()}
    row = {"key": key, "backend": "torch", "run": run, "sides": sides, "errors": {}}
    row |= {"status": "measured", "flops": 5e11, "floor_ms": 0.5, "amount": None}
    return {**row, **facts}


def test_rows_of_other_versions_and_those_that_failed_are_measured_again():
    every = [types.SimpleNamespace(key=key) for key in "abcd"]
    document = {"runs": {**RUNS, "now": RUNS["2026"]}}
    document["rows"] = [stored("a", "2025"), stored("b", status="failed"), stored("c")]
    document["rows"].append(stored("d", "now", status="failed"))
    assert [row.key for row in report.ahead(document, every, "now")] == ["a", "b"]


def test_a_row_replaces_the_older_one(tmp_path):
    path = tmp_path / "gpu.json"
    report.save(path, report.load(path), stored("a"), stored("b"))
    report.save(path, report.load(path), stored("a", status=report.BEGUN, start=0))
    assert report.end(path, "2026", "it ended") == 2
    again = report.load(path)["rows"]
    assert [(row["key"], row["status"]) for row in again] == [
        ("b", "measured"),
        ("a", "failed"),
    ]
    assert again[1]["reason"].startswith("it ended after")


def test_the_tables_have_what_was_measured():
    core = stored(report.core_key(2048, 128, "causal", "fwd+bwd"))
    key = "masks: T = 2,048, texts, with gradients"
    failed = stored(key, status="failed", reason="no room")
    wrong = stored(report.core_key(4096, 128, "causal", "fwd+bwd"))
    wrong |= {"sides": {"ours": core["sides"]["ours"]}, "errors": {"SDPA": "differs"}}
    document = {"runs": RUNS, "rows": [core, failed, wrong]}
    tables = report.tables({"gpu": document})
    (line,) = (x for x in tables["core, fwd+bwd"].split("\n") if "500 (1.50)" in x)
    assert line.startswith(
        "| torch | 128 | causal | not run | not run | 500 (1.50) | 500; SDPA failed |"
    )
    assert "| T = 2,048, texts, with gradients | not run | failed |" in tables["masks"]
    assert "a GPU, 570" in tables["runs"]
    (ours, peer) = report.series(document)
    assert (ours["name"], ours["x"]) == ("torch, ours", [2048, 4096])
    assert ours["seconds"] == [1e-3, 1e-3]
    assert peer["seconds"] == [3e-3]
    assert "gpu.png" in tables["picture"]
    empty = report.tables({"gpu": {"runs": {}, "rows": []}})
    assert empty["picture"] == empty["runs"] == "not run"


def test_each_row_has_a_key_of_its_own():
    for quick in (False, True):
        keys = [row.key for row in rows.rows(quick)]
        assert len(keys) == len({*keys}) == (26 if quick else 91)
    for row in rows.rows():
        assert sum(step.flops for step in row.module.steps(row.sizes)) > 0


def run(tmp_path, *options):
    path = tmp_path / "gpu.json"
    words = ["gpu", "--backend", BACKEND, "--quick", "--json", str(path), *options]
    status = command_line.main(words)
    return status, json.loads(path.read_text("utf-8")) if path.exists() else None


SLOW_ROW = (
    """
import time
from speed.gpu import worker
worker.measure = lambda row, *options: time.sleep(60) if "window" in row.key else {
    "status": "failed", "reason": "no side"}
"""
    + command.BOOTSTRAP
)


@pytest.mark.slow  # only a process of its own shows that it is ended and replaced
def test_a_row_that_hangs_is_ended_and_the_next_one_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "BOOTSTRAP", SLOW_ROW)
    monkeypatch.setattr(command, "ROW_SECONDS", 2.0)
    status, document = run(tmp_path, "--rows", "window", "ALiBi", "--minutes", "8")
    assert status == 1
    hung, other = sorted(row["reason"] for row in document["rows"])
    assert hung.startswith("its process ends with status 1 after ")
    assert other == "no side"
    assert "2 rows: 0 not run, 2 with errors" in capsys.readouterr().out


def test_a_process_that_cannot_start_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "BOOTSTRAP", "raise SystemExit(9)")
    assert run(tmp_path) == (1, None)
    output = capsys.readouterr().out
    assert "its process ends with status 9, before any row" in output
    assert " 0 with errors" in output


# Only a whole run shows that each kind of row works on a backend, and is not repeated.
@pytest.mark.slow
@pytest.mark.backends("all")
def test_the_command_measures_each_row_once(tmp_path, capsys):
    chosen = {"jax": ["core", "masks", "tiny", "DNC"], "tensorflow": ["Multi"]}
    parts = chosen.get(BACKEND)
    options = ["--rows", *parts] if parts else []
    status, document = run(tmp_path, *options)
    output = capsys.readouterr().out
    assert status == 0, output
    count = len(rows.select(parts, True, BACKEND))
    assert len(document["rows"]) == count
    assert f"{count} rows: 0 not run, 0 with errors" in output
    for row in document["rows"]:
        assert row["sides"]["ours"]["wall_ms"][1] > 0
    assert str(ROOT) not in json.dumps(document)
    assert run(tmp_path, *options)[1]["rows"] == document["rows"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--quick"], "--quick needs --json"),
        (["--minutes", "0"], "--minutes must be above 0. Received: 0.0"),
        (["--rows", "nothing"], "--rows must be parts of keys of rows, which are:\n"),
    ],
)
def test_wrong_options_are_refused(options, message, capsys):
    assert command_line.main(["gpu", "--backend", BACKEND, *options]) == 2
    assert message in capsys.readouterr().err
