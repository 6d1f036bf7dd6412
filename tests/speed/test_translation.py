"""Training steps of two Transformers, timed on a few pairs of one's own."""

import keras
import pytest

from keras_attention.datasets import translation
from speed import command_line
from speed import translation as command
from studies.translation import training, transformer

PAIRS = [
    translation.Pair(f"a {a} sees a {b}", f"ein {a} sieht ein {b}")
    for a in ("dog", "man", "ball", "tree")
    for b in ("dog", "man", "ball", "tree")
]
SETTINGS = {
    **transformer.MODEL,
    **transformer.TRAINING,
    "num_layers": 1,
    "dim": 16,
    "num_heads": 2,
    "intermediate_dim": 24,
    "batch_size": 16,
    "epochs": 1,
    "source": "forward",
}


@pytest.mark.slow
@pytest.mark.backends("torch", reason="times torch alone")
def test_step_times(monkeypatch):
    monkeypatch.setattr(command, "PAIRS", 2)
    monkeypatch.setattr(training, "WIDTHS", (12,))
    vocabularies = [
        translation.Vocabulary.from_sentences([pair[side] for pair in PAIRS])
        for side in (0, 1)
    ]
    data = training.Data({"train": PAIRS}, *vocabularies)
    found = command.step_times(data, 0, SETTINGS)
    assert {*found} == {"threads", "same dropout, width 12", "as it comes, width 12"}
    assert found["as it comes, width 12"]["times_as_fast"]["median"] > 0


def test_the_table_of_the_page():
    spread = {"median": 0.9, "low": 0.8, "high": 1.0, "p5": 0.7, "p95": 1.25}
    row = {"ours_cpu_seconds": 0.1234, "times_as_fast": spread, "null": spread}
    raw = {"translation": {"step_times": {"threads": 1, "as it comes, width 12": row}}}
    table = command.tables(raw)["steps"].split("\n")
    assert table[2:] == ["| 12 | as it comes | 123 ms | 0.90 (0.80–1.00) | 0.70–1.25 |"]


def test_times_are_of_torch(capsys, monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    assert command_line.main(["translation"]) == 2
    assert "KERAS_BACKEND=torch" in capsys.readouterr().err
