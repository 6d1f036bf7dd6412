"""The command `gpu`: its masks, what it stores, what it does about errors."""

import json
import subprocess
import sys
import types

import keras
import numpy as np
import pytest
from calling import TRAINS, in_checkout
from checkout import ROOT

from speed import command_line, harness
from speed.gpu import command, heads, masks, picture, report, rows, timing, worker

BACKEND = keras.config.backend()
SIZES = {"B": 4, "T": 24, "H": 3, "D": 5, "mode": "fwd+bwd"}
NAMES = [*rows.MASKS, *rows.CAUSAL, "none", "causal"]
pytestmark = pytest.mark.skipif(not TRAINS, reason=f"{BACKEND} does not train")


def pairs(mask):
    t = np.arange(mask.length)
    return np.stack([mask.allowed(n, t) for n in range(len(mask.lengths))])


@pytest.mark.parametrize("name", NAMES)
def test_a_mask_hides_as_much_as_its_name_says(name):
    mask = masks.Mask(name, {**SIZES, "T": 400, "window": 50})
    allowed = pairs(mask)
    if name.startswith(("padding", "scattered")):
        share = int(name.split()[1]) / 100
        assert mask.valid.mean() == pytest.approx(1 - share, abs=0.01)
        ends = mask.valid == np.sort(mask.valid, axis=1)[:, ::-1]
        assert ends.all() == name.startswith("padding")
    if mask.causal:
        assert not np.triu(allowed, 1).any()
    valid = allowed & mask.valid[:, :, None]
    assert valid.sum((1, 2)).mean() == pytest.approx(mask.pairs, rel=0.05)
    if name == "texts":
        assert mask.ids.max() == masks.TEXTS


def test_the_slice_has_the_right_gradients():
    mask = masks.Mask("ALiBi", SIZES)
    shape = tuple(SIZES[name] for name in "BTHD")
    x = [np.random.default_rng(n).normal(size=shape) for n in range(4)]
    part = masks.exact(mask, *x)
    place = part.example, part.queries, part.head

    def loss(changed):
        again = masks.exact(mask, *changed, x[3])
        return (again.results[0] * x[3][place]).sum()

    step = 1e-6
    for n, (t, gradient) in enumerate(zip((part.queries[2], 1, 1), part.results[1:])):
        found = gradient[2 if n == 0 else 1, 3]
        sides = []
        for sign in (1, -1):
            changed = [y.copy() for y in x[:3]]
            changed[n][part.example, t, part.head, 3] += sign * step
            sides.append(loss(changed))
        assert (sides[0] - sides[1]) / (2 * step) == pytest.approx(found, rel=1e-5)


def test_a_wrong_side_is_found():
    part = masks.Slice(0, 0, np.array([1]), [np.ones((1, 2))])
    assert part.error([np.ones((3, 2))]) == 0
    for wrong in (1.1, np.nan):
        with pytest.raises(harness.NumericsError, match="`output` differs by"):
            part.error([np.full((3, 2), wrong)])


def side(run=lambda: 0, error=0.0):
    def check():
        if isinstance(error, Exception):
            raise error
        return error

    return lambda: heads.Side(timing.Call(run), check)


def row_of(sides, skipped=()):
    return types.SimpleNamespace(
        key="core: a row",
        sizes={},
        dtype="bfloat16",
        amount=None,
        make=lambda backend: (sides, dict(skipped)),
        steps=lambda: (harness.Step(2e9, 1e3, (1, 1, 1, 1)),),
    )


def measured(sides, skipped=()):
    timer = timing.Timer(BACKEND, 2, 0.0)
    rates = {"bfloat16": 1e12, "bytes": 1e9}
    return worker.measure(row_of(sides, skipped), BACKEND, timer, rates)


@pytest.fixture
def short(monkeypatch):
    for name, value in (("SAMPLE", 1e-5), ("WARM_UP", 0.0), ("LEAST_PAIRS", 2)):
        monkeypatch.setattr(timing, name, value)


def fails():
    raise MemoryError(f"no room in {sys.prefix}/lib for 8 GB")


@pytest.mark.usefixtures("short")
def test_a_peer_that_fails_leaves_the_others():
    wrong = side(error=harness.NumericsError("`output` differs"))
    sides = {"ours": side(), "peer": side(), "wrong": wrong, "fails": lambda: fails()}
    row = measured({**sides, "fails later": side(run=fails)}, {"absent": "needs a GPU"})
    assert row["status"] == "measured"
    assert set(row["sides"]) == {"ours", "peer"}
    assert row["sides"]["peer"]["pairs"] == 2
    assert row["floor_ms"] == pytest.approx(2)
    assert set(row["errors"]) == {"wrong", "fails", "fails later"}
    assert row["errors"]["fails"] == "MemoryError: no room in …/lib for 8 GB"
    assert row["skipped"] == {"absent": "needs a GPU"}
    assert report.is_bad(row)
    assert "wrong failed: NumericsError: `output` differs" in report.line(row)


@pytest.mark.usefixtures("short")
def test_a_row_without_our_side_has_failed():
    wrong = side(error=harness.NumericsError("`dkey` differs"))
    row = measured({"ours": wrong, "peer": side()})
    assert (row["status"], row["reason"]) == ("failed", "NumericsError: `dkey` differs")
    assert report.line(row).endswith("failed: NumericsError: `dkey` differs")


FACTS = {
    "backend": BACKEND,
    "device": "a GPU",
    "driver": "1",
    "versions": {"keras": "3"},
}
RATES = {"rates": {"bfloat16": 5e14, "float32": 5e13, "bytes": 4e12}}


def stored(key, run=0, quick=False, ours=2.0, **more):
    spread = {"median": 1.5}
    peer = {"wall_ms": [3, 3, 3], "ratio": spread, "verdict": harness.FASTER}
    sides = {"ours": {"wall_ms": [ours] * 3, "device_ms": [1, 1, 1]}, "SDPA": peer}
    row = {"key": key, "backend": "torch", "run": run, "quick": quick, "sides": sides}
    row |= {"status": "measured", "errors": {}, "flops": 5e11, "floor_ms": 0.5}
    return {**row, "amount": None, "sizes": {}, **more}


def test_rows_of_other_versions_are_measured_again():
    other = {**FACTS, "versions": {"keras": "4"}}
    document = {"runs": [other, FACTS], "rows": [stored("a"), stored("b", 1)]}
    failed = stored("c", 1, status="failed")
    document["rows"] += [failed, stored("d", 1, quick=True)]
    known = report.rows_of(document, FACTS, quick=False)
    assert set(known) == {"b", "c"}
    keys = ["a", "b", "c", "d"]
    assert report.ahead(keys, known, [], again=False) == ["a", "d", "c"]
    assert report.ahead(keys, known, ["a", "c"], again=False) == ["d"]
    assert report.ahead(keys, known, ["a"], again=True) == ["b", "c", "d"]


def test_a_row_replaces_the_older_one(tmp_path):
    document = report.load(tmp_path / "gpu.json")
    report.add(document, stored("a"))
    report.add(document, stored("a", quick=True))
    report.add(document, stored("a", ours=7.0))
    report.save(tmp_path / "gpu.json", document)
    again = report.load(tmp_path / "gpu.json")
    assert again == document
    assert [row["sides"]["ours"]["wall_ms"][0] for row in again["rows"]] == [2.0, 7.0]


def test_the_tables_have_what_was_measured():
    key = "core: T = 2,048, D = 128, causal, forward"
    sizes = {"T": 2048, "D": 128, "mask": "causal", "mode": "fwd"}
    document = {"runs": [{**FACTS, **RATES, "date": "2026-12-01T00:00"}]}
    document["rows"] = [stored(key, sizes=sizes)]
    document["runs"][0]["backend"] = "torch"
    failed = "masks: texts, T = 2,048, with gradients"
    document["rows"].append(stored(failed, status="failed", reason="no room"))
    tables = report.tables({"gpu": document})
    (line,) = (x for x in tables["core, fwd"].split("\n") if "500 (1.50)" in x)
    assert line.startswith("| torch | 128 | causal | not run | not run | 500 (1.50)")
    assert "| texts, T = 2,048, with gradients | not run | failed |" in tables["masks"]
    assert "a GPU, driver 1" in tables["runs"]
    (ours, peer) = report.series(document)
    assert (ours["name"], ours["x"], ours["y"]) == ("torch, ours", [2048], [500.0])
    assert peer["y"] == [pytest.approx(5e11 / 3 / 1e9, abs=0.1)]
    assert "gpu.png" in tables["picture"]
    pytest.importorskip("matplotlib")
    figure = picture.plot_rates([ours, {**peer, "panel": "with gradients"}])
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "forward",
        "with gradients",
    ]


def test_without_a_run_the_tables_say_so():
    tables = report.tables({"gpu": {"runs": [], "rows": []}})
    assert tables["picture"] == tables["runs"] == "not run"
    cells = "".join(tables[name] for name in ("core, fwd", "masks", "models"))
    assert cells.count("not run") == 2 * 24 + 2 * 22 + 2 * 9


def test_each_row_has_a_key_of_its_own():
    for quick in (False, True):
        keys = [row.key for row in rows.rows(quick)]
        assert len(keys) == len(set(keys))
    assert {row.group for row in rows.rows()} == set(rows.GROUPS)
    assert all(sum(s.flops for s in row.steps()) > 0 for row in rows.rows())


def run(tmp_path, *options):
    path = tmp_path / "gpu.json"
    given = ["gpu", "--backend", BACKEND, "--quick", "--json", str(path), *options]
    status = command_line.main(given)
    return status, json.loads(path.read_text("utf-8")) if path.exists() else None


SLOW_ROW = (
    """
import time
from speed.gpu import worker
worker.measure = lambda row, *more: time.sleep(60) if "window" in row.key else {
    "key": row.key, "status": "failed", "reason": "no side"}
"""
    + command.BOOTSTRAP
)


@pytest.mark.slow  # only a process of its own shows that it is ended and replaced
def test_a_row_that_hangs_is_ended_and_the_next_one_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "BOOTSTRAP", SLOW_ROW)
    monkeypatch.setattr(command, "ROW_SECONDS", 1.0)
    status, document = run(tmp_path, "--rows", "window", "ALiBi", "--minutes", "2")
    assert status == 1
    reasons = {row["key"]: row["reason"] for row in document["rows"]}
    assert sorted(reasons.values()) == ["it takes more than 1 s", "no side"]
    assert "2 rows: 0 not run, 2 with errors" in capsys.readouterr().out


def test_a_process_that_cannot_start_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "BOOTSTRAP", "raise SystemExit(9)")
    assert run(tmp_path) == (1, None)
    told = capsys.readouterr().out
    assert "the process ends with status 9 before any row" in told
    assert "26 not run" in told


# Only a whole run shows that each kind of row works on a backend, and is not repeated.
@pytest.mark.slow
@pytest.mark.backends("jax", "torch")
def test_the_command_measures_each_row_once(tmp_path, capsys):
    parts = [] if BACKEND == "torch" else ["--rows", "core", "masks", "tiny", "DNC"]
    status, document = run(tmp_path, *parts)
    told = capsys.readouterr().out
    assert status == 0, told
    count = len(rows.select(parts[1:], quick=True))
    assert len(document["rows"]) == count
    assert f"{count} rows: 0 not run, 0 with errors" in told
    for row in document["rows"]:
        assert row["sides"]["ours"]["wall_ms"][1] > 0
    assert str(ROOT) not in json.dumps(document)
    assert run(tmp_path, *parts)[1]["rows"] == document["rows"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--quick"], "--quick needs --json"),
        (["--minutes", "0"], r"--minutes must be above 0. Received: 0.0"),
        (
            ["--rows", "nothing"],
            "--rows must be parts of keys of rows, which are:\ncore",
        ),
    ],
)
def test_wrong_options_are_refused(options, message, capsys):
    assert command_line.main(["gpu", "--backend", BACKEND, *options]) == 2
    assert message.replace("\\", "") in capsys.readouterr().err


@pytest.mark.slow  # pytest in a process of its own
@pytest.mark.backends("torch")
def test_the_tests_of_values_run_and_are_noted(tmp_path):
    script, file = ROOT / "tests" / "on_gpu.py", tmp_path / "results.json"
    test = tmp_path / "test_some.py"
    test.write_text(
        "def test_right(): pass\ndef test_wrong(): assert 1 == 2\n"
        "def test_without(): __import__('pytest').skip('no such thing')\n"
    )
    given = ["--backend", "torch", "--quick", "--json", file]
    for found in ("passed", "failed"):  # what passed is not repeated
        done = subprocess.run(
            [sys.executable, script, *given, test],
            env=in_checkout(),
            capture_output=True,
        )
        assert done.returncode == 1, found
    results = json.loads(file.read_text("utf-8"))["torch"]
    names = {kind: str(results[kind]) for kind in ("passed", "failed", "skipped")}
    assert "test_right" in names["passed"]
    assert "assert 1 == 2" in names["failed"]
    assert "no such thing" in names["skipped"]
    assert results["device"] == "cpu"
