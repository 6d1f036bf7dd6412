"""Guides with exports: all their code runs, also what needs an exporter's package.

That a residual keeps its mask on every backend is tested in
layers/multi_head/test_multi_head_defects.py.
"""

import re

import pytest
from calling import ROOT, printed_by
from processes import environment

GUIDES = ROOT / "docs" / "guides"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.mark.release  # in `all`, torch runs the page
@pytest.mark.parametrize("backend", ["jax", "tensorflow", "torch"])
def test_a_model_of_your_own(backend, tmp_path):
    page = (GUIDES / "your-own-model.md").read_text("utf-8")
    (tmp_path / "guide.py").write_text("\n".join(BLOCK.findall(page)), "utf-8")
    text = printed_by("guide.py", env=environment(backend, tmp_path), cwd=tmp_path)
    # Loaded in another process; served by onnxruntime.
    assert text.splitlines().count("True") == 2, text
