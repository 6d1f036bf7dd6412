"""Guides with exports: all their code runs, also what needs an exporter's package."""

import pathlib
import re
import subprocess
import sys

import pytest
from processes import environment

GUIDES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guides"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.mark.release  # in `all`, torch runs the page
@pytest.mark.parametrize("backend", ["jax", "tensorflow", "torch"])
def test_a_model_of_your_own(backend, tmp_path):
    page = (GUIDES / "your-own-model.md").read_text("utf-8")
    (tmp_path / "guide.py").write_text("\n".join(BLOCK.findall(page)), "utf-8")
    done = subprocess.run(
        [sys.executable, "guide.py"],
        env=environment(backend, tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    # Loaded in another process; served by onnxruntime; the mask at a residual.
    said = done.stdout.splitlines()
    assert said.count("True") == 2, done.stdout
    assert "True False" in said
