"""The translation benchmark, on a few pairs of one's own."""

import json
from types import SimpleNamespace

import pytest

from keras_attention.benchmarks.__main__ import main
from keras_attention.benchmarks.translation import command, training
from keras_attention.datasets import translation

NOUNS = {"dog": "hund", "man": "mann", "ball": "ball", "tree": "baum"}
VERBS = {"sees": "sieht", "hears": "hört", "has": "hat"}
PAIRS = [
    translation.Pair(f"a {a} {verb} a {b}", f"ein {c} {verben} ein {d}")
    for a, c in NOUNS.items()
    for b, d in NOUNS.items()
    for verb, verben in VERBS.items()
]
SETTINGS = {
    **training.MODEL,
    **training.TRAINING,
    "units": 24,
    "embedding_dim": 16,
    "dropout": 0.0,
    "batch_size": 16,
    "rate": 0.02,
    "epochs": 12,
    "source": "forward",
}


@pytest.fixture(scope="module")
def data():
    vocabularies = [
        translation.Vocabulary.from_sentences([pair[side] for pair in PAIRS])
        for side in (0, 1)
    ]
    pairs = {"train": PAIRS, "valid": PAIRS[:5], "test": PAIRS[:5]}
    return training.Data(pairs, *vocabularies)


def test_it_learns_to_translate(data):
    pytest.importorskip("sacrebleu")
    settings = {**SETTINGS, "source": "reversed"}
    model, row = training.learn(data, "bahdanau", 0, settings)
    assert row["steps"] == 12 * 3
    assert row["valid_loss"] < 0.3
    found, about = training.scores(model, data, "test", "reversed")
    assert found["greedy"] > 90
    assert found["beam"] > 90
    assert about["signature"].startswith("nrefs:1")


def test_texts_come_back_in_their_order(data):
    model, _ = training.learn(data, None, 0, {**SETTINGS, "epochs": 1})
    texts = ["a dog sees a ball", "a man", "a tree has a tree"]
    together = training.translate(model, data, texts, "greedy", "forward")
    alone = [training.translate(model, data, [t], "greedy", "forward") for t in texts]
    assert [[text] for text in together] == alone


def test_a_finished_run_is_not_done_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "missing", lambda: [])
    out, report = tmp_path / "runs.jsonl", tmp_path / "report.json"
    done = []

    def do(store, data, one, settings):
        done.append(one["attention"])
        result = {"bleu": {"greedy": 1.0, "beam": 2.0}, "fit_seconds": 3.0}
        run = {**one, "keras": "3", "settings": settings}
        return store.add({**run, "result": {**result, "signature": "nrefs:1"}})

    monkeypatch.setattr(command, "_do", do)
    monkeypatch.setattr(command, "_data", lambda settings: SimpleNamespace())
    arguments = ["translation", "--out", str(out), "--json", str(report)]
    for _ in range(2):
        assert main(arguments) == 0
    assert done == ["bahdanau", "none"]
    assert len(json.loads(report.read_text())["runs"]) == 2
    assert "nrefs:1" in capsys.readouterr().out
    assert main([*arguments, "--epochs", "3"]) == 2
    assert "with other settings (epochs)" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["epochs", "units"])
def test_bad_numbers(name, capsys, monkeypatch):
    monkeypatch.setattr(command, "missing", lambda: [])
    assert main(["translation", f"--{name}", "0"]) == 2
    assert f"--{name} must be at least 1" in capsys.readouterr().err


def test_what_is_not_installed_is_said(capsys, monkeypatch):
    monkeypatch.setattr(command, "NEEDED_MODULES", ("sys", "no_such_module"))
    assert main(["translation"]) == 2
    said = capsys.readouterr().err
    assert "needs no_such_module" in said
    assert "[text,bench]" in said
