"""The example of a language model with neighbours as a user runs it."""

import json

import pytest
from calling import run_example, short_and_long

pytest.importorskip("faiss")


@pytest.mark.parametrize(("epochs", "learns"), short_and_long(1, 6))
def test_neighbours_predict_what_the_text_repeats(
    epochs, learns, tmp_path, monkeypatch
):
    lines = [f"the {n} th house has {n * n % 97} windows .\n" for n in range(23)]
    (tmp_path / "text.txt").write_text("".join(15 * lines), "utf-8")
    sizes = {"epochs": epochs, "dim": 32, "length": 16, "neighbours": 8}
    done = run_example(
        "neighbours_lm.py",
        *(f"--{name}={value}" for name, value in sizes.items()),
        *("--text", "text.txt", "--json", "figures.json", "--kind", "flat"),
        folder=tmp_path,
        patch=None if learns else monkeypatch,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads((tmp_path / "figures.json").read_text("utf-8"))
    assert "test, with neighbours: " in done.stdout
    assert figures["mixture"] > 0
    for part in ("held back", "test"):
        alone = figures[f"{part}, alone"]
        assert 1 < figures[f"{part}, with neighbours"] < 0.9 * alone
