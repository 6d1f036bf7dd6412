"""The test command's last line: what came of a run, and why."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import run

MADE = {"retcode": 0, "elapsed": 30.0, "output": "", "err": ""}
PASSED = {"retcode": 0, "elapsed": 90.0, "output": "7 passed in 90 s\n", "err": ""}
FINE = {"result": {"success": True, "exit_code": 0}, "setup": [MADE], "test": [PASSED]}


def broken(**step):
    """An environment one step of which has failed."""
    found = {"result": {"success": False, "exit_code": 1}, "setup": [MADE], "test": []}
    kind = step.pop("kind", "test")
    return {**found, kind: [{**MADE, **step}]}


def last_line(monkeypatch, tmp_path, environments, status, full=False):
    """What `report` returns where tox wrote this of the environments."""
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results.json")
    text = json.dumps({"testenvs": {**environments, "not_run": {}}})
    run.RESULTS.write_text(text, "utf-8")
    return run.report(status, full, 120.0)


def test_all_passed(monkeypatch, tmp_path, capsys):
    line = last_line(monkeypatch, tmp_path, {"jax": FINE, "torch": FINE}, 0)
    assert line == "All 2 environments passed in 2.0 minutes."
    rows = capsys.readouterr().out.splitlines()
    assert rows[-2].split() == ["jax", "0.5", "1.5", "passed"]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (
            {"kind": "setup", "retcode": 1, "err": "ERROR: a\nERROR: No torch==99\n"},
            "jax: its packages could not be installed (No torch==99)",
        ),
        (
            {"kind": "setup", "retcode": 2},
            "jax: its packages could not be installed (exit status 2)",
        ),
        (
            {"retcode": 1, "output": "F\n=== 1 failed, 6 passed in 9 s ===\n"},
            "jax: 1 failed, 6 passed in 9 s",
        ),
        ({"retcode": -9}, "jax: killed by SIGKILL"),
    ],
)
def test_what_failed_is_named(monkeypatch, tmp_path, step, why):
    environments = {"torch": FINE, "jax": broken(**step)}
    assert last_line(monkeypatch, tmp_path, environments, 1) == f"Failed: {why}."


def test_what_does_not_block_is_reported_and_passes(monkeypatch, tmp_path):
    """tox ends with 0 where the outcome of an environment is to be ignored."""
    oldest = broken(retcode=1, output="1 failed in 3 s\n")
    line = last_line(monkeypatch, tmp_path, {"jax": FINE, "oldest": oldest}, 0)
    assert line == (
        "1 environments passed. What does not block failed: oldest: 1 failed in 3 s."
    )


def test_a_full_disk_is_named(monkeypatch, tmp_path):
    line = last_line(monkeypatch, tmp_path, {"jax": broken(retcode=1)}, 1, full=True)
    assert line.startswith("Failed: the disk is full. ")
    assert line.endswith("Make room, then run the command again.")


@pytest.mark.parametrize("text", ["", "{", None])
def test_a_run_that_could_write_nothing(monkeypatch, tmp_path, text):
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results.json")
    if text is not None:
        run.RESULTS.write_text(text, "utf-8")
    assert run.report(3, False, 1.0) == "Failed: tox ended with exit status 3."
    assert run.report(0, False, 1.0).startswith("Failed")  # nothing was run
    assert "the disk is full" in run.report(3, True, 1.0)


CHILD = """
import time
for _ in range(600):
    open("beats", "a").write("x")
    time.sleep(0.1)
"""
FAKE = f"""
import pathlib, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {CHILD!r}])
while not pathlib.Path("beats").exists():
    time.sleep(0.1)
print("begun", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="process groups are those of POSIX")
def test_a_run_that_is_stopped_says_so_and_leaves_no_process(tmp_path):
    (tmp_path / "tox").mkdir()
    (tmp_path / "tox" / "__init__.py").touch()
    (tmp_path / "tox" / "__main__.py").write_text(FAKE)
    start = (
        f"import pathlib, run; run.ROOT = pathlib.Path({str(tmp_path)!r});"
        "run.RESULTS = run.ROOT / 'results.json'; run.PATIENCE = 2;"
        "raise SystemExit(run.main())"
    )
    paths = os.pathsep.join([str(tmp_path), str(pathlib.Path(run.__file__).parent)])
    with subprocess.Popen(
        [sys.executable, "-c", start],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert "reports when it is done" in process.stdout.readline()
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGTERM)
        said = process.stdout.read()
    assert process.returncode == 130
    last = said.splitlines()[-1]
    assert last.startswith("Stopped by SIGTERM. Run the command again")
    beats = (tmp_path / "beats").stat().st_size
    time.sleep(0.5)
    assert (tmp_path / "beats").stat().st_size == beats, "what tox started still runs"
