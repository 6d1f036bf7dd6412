"""The command that runs the tests of values on a GPU."""

import json
import subprocess
import sys

import pytest
from calling import in_checkout
from checkout import ROOT


@pytest.mark.slow  # pytest in a process of its own
@pytest.mark.backends("torch")
def test_the_tests_of_values_run_and_are_noted(tmp_path):
    script, file = ROOT / "tests" / "on_gpu.py", tmp_path / "results.json"
    test = tmp_path / "test_some.py"
    test.write_text(
        "def test_right(): pass\ndef test_wrong(): assert 1 == 2\n"
        "def test_without(): __import__('pytest').skip('no such thing')\n"
    )
    options = ["--backend", "torch", "--quick", "--json", file]
    for outcome in ("passed", "failed"):  # what passed is not repeated
        done = subprocess.run(
            [sys.executable, script, *options, test],
            env=in_checkout(),
            capture_output=True,
        )
        assert done.returncode == 1, outcome
    results = json.loads(file.read_text("utf-8"))["torch"]
    names = {kind: str(results[kind]) for kind in ("passed", "failed", "skipped")}
    assert "test_right" in names["passed"]
    assert "assert 1 == 2" in names["failed"]
    assert "no such thing" in names["skipped"]
    assert results["device"] == "cpu"
