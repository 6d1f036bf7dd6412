"""The example of a language model as a user runs it."""

import pytest
from calling import ROOT, run_example, short_and_long

SCRIPT = ROOT / "examples" / "language_model.py"


@pytest.mark.parametrize(("steps", "learns"), short_and_long(3, 150))
def test_it_learns_from_a_text_and_goes_on(steps, learns, tmp_path, monkeypatch):
    lines = [f"{n} green bottles hang on the wall, {n} in all.\n" for n in range(900)]
    (tmp_path / "text.txt").write_text("".join(lines), "utf-8")
    sizes = {"steps": steps, "dim": 32, "layers": 1, "length": 32, "batch-size": 16}
    arguments = [f"--{name}={value}" for name, value in sizes.items()]
    done = run_example(
        *("language_model.py", *arguments, "--text", "text.txt", "--characters", 11),
        *("--prompt", "7 green bot", "--prompt", "8"),
        folder=tmp_path,
        patch=None if learns else monkeypatch,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    characters, pairs, model = (
        float(line.split()[-1])
        for line in done.stdout.splitlines()
        if line.split(":")[0].split()[-1:] in (["characters"], ["model"])
        and line.split()[-1].replace(".", "").isdigit()
    )
    assert pairs < characters
    assert model < pairs or not learns
    assert done.stdout.count("'7 green bot") == done.stdout.count("'8") == 2
    assert "loaded again: the same bits" in done.stdout
    for name in ("model.keras", "characters.txt"):
        assert (tmp_path / "language_model" / name).stat().st_size > 100


@pytest.mark.slow
def test_its_own_text_is_there():
    """What every Python ships is enough to learn from."""
    source = SCRIPT.read_text("utf-8")
    space = {}
    start = source.index("def docstrings():")
    end = source.index("def windows(")
    names = "import ast\nimport sysconfig\nfrom pathlib import Path\n"
    code = names + "import numpy as np\n" + source[start:end]
    exec(compile(code, str(SCRIPT), "exec"), space)
    text = space["docstrings"]()
    assert len(text) > 300_000
    assert " the " in text
