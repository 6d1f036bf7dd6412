"""The translation benchmark, on a few pairs of one's own."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_attention.datasets import translation
from studies.command_line import main
from studies.translation import command, report, training, transformer

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
ATTENDS = {
    **transformer.MODEL,
    **transformer.TRAINING,
    "num_layers": 1,
    "dim": 16,
    "num_heads": 2,
    "intermediate_dim": 24,
    "dropout": 0.0,
    "batch_size": 16,
    "rate": 0.02,
    "warmup_steps": 6,
    "epochs": 14,
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


@pytest.mark.release
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


@pytest.mark.release
def test_a_transformer_learns_to_translate(data):
    pytest.importorskip("sacrebleu")
    settings = {**ATTENDS, "num_layers": 2, "epochs": 60}
    model, row = transformer.learn(data, 0, settings)
    assert row["steps"] == 60 * 3
    found, _ = training.scores(model, data, "test", "forward")
    assert found["greedy"] > 90
    assert found["beam"] > 90


def test_torchs_own_learns_from_the_same_weights_and_batches(data):
    """Without dropout, and for a few steps, the two are one."""
    pytest.importorskip("torch")
    settings = {**ATTENDS, "epochs": 2}
    ours, row = transformer.learn(data, 3, settings)
    theirs, other = transformer.learn(data, 3, settings, peer=True)
    assert row["steps"] == other["steps"] == 6
    assert row["loss"] == pytest.approx(other["loss"], abs=2e-3)
    assert row["valid_loss"] == pytest.approx(other["valid_loss"], abs=2e-3)
    source = np.array([[5, 6, 7, 8], [4, 9, 0, 0]], "int32")
    np.testing.assert_array_equal(
        ours.generate(source, 5), theirs.generate(source, 5, "greedy")
    )


def test_both_have_the_same_rates(data):
    torch = pytest.importorskip("torch")
    model = transformer.new(data, 0, ATTENDS)
    transformer.compile_with(model, ATTENDS, 42)
    module = torch.nn.Linear(2, 2)
    optimizer, schedule = transformer.torch_optimizer(module, ATTENDS, 42)
    ours = model.optimizer._learning_rate
    for step in range(42):
        assert float(ours(step)) == pytest.approx(schedule.get_last_lr()[0], abs=1e-8)
        optimizer.step()
        schedule.step()


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

    def do(store, data, one, settings, folder):
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
    assert main([*arguments, "--model", "transformer"]) == 0
    assert done[2:] == ["transformer"]


@pytest.mark.slow
def test_own_test_pairs_and_a_saved_network(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "missing", lambda: [])
    monkeypatch.setattr(command, "_data", lambda settings: data)
    seen = []

    def bleu(written, wanted):
        seen.append((written, wanted))
        return 12.5, "signature"

    monkeypatch.setattr(training, "bleu", bleu)
    own, out, save = tmp_path / "own.tsv", tmp_path / "runs.jsonl", tmp_path / "nets"
    own.write_text("a dog sees a man\tein hund sieht ein mann\na man\tein mann\n")
    arguments = ["translation", "--attention", "luong", "--units", "8", "--epochs", "1"]
    arguments += ["--out", str(out), "--test", str(own), "--save", str(save)]
    assert main(arguments) == 0
    assert [wanted for _, wanted in seen] == [
        ["ein hund sieht ein mann", "ein mann"]
    ] * 2
    model = keras.saving.load_model(save / "luong-0" / "model.keras")
    source = translation.Vocabulary.load(save / "luong-0" / "source.spm")
    target = translation.Vocabulary.load(save / "luong-0" / "target.spm")
    loaded = training.Data({}, source, target)
    texts = ["a dog sees a man", "a man"]
    assert training.translate(model, loaded, texts, "greedy", "forward") == seen[0][0]
    capsys.readouterr()
    other = tmp_path / "other.tsv"
    other.write_text("a man\tein mann\n")
    monkeypatch.setattr("keras_attention.text.Subwords", translation.Vocabulary)
    score = ["translation", "--score", str(save / "luong-0"), "--test", str(other)]
    assert main(score) == 0
    assert "luong-0, forward: BLEU {'greedy': 12.5" in capsys.readouterr().out
    assert [*seen.pop(), *seen.pop()][::2] == [seen[1][0][1:], seen[0][0][1:]]
    assert main(arguments) == 0  # the run is found again
    assert len(seen) == 2
    assert main(arguments[:9]) == 0  # the usual test pairs
    assert seen[2][1] == [pair.target for pair in PAIRS[:5]]
    capsys.readouterr()
    assert main([*arguments[:-1], str(tmp_path / "other")]) == 2
    assert "whose network is not in" in capsys.readouterr().err


def test_files_of_the_user_are_checked_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "missing", lambda: [])
    path = tmp_path / "own.tsv"
    assert main(["translation", "--test", str(path)]) == 2
    assert "--test: There is no file" in capsys.readouterr().err
    path.write_text("no tab\n")
    assert main(["translation", "--test", str(path)]) == 2
    assert "own.tsv, line 1: must be a text, a tab" in capsys.readouterr().err
    path.write_text("")
    assert main(["translation", "--test", str(path)]) == 2
    assert "must have at least one pair" in capsys.readouterr().err
    assert main(["translation", "--save", str(path)]) == 2
    assert "own.tsv cannot be used" in capsys.readouterr().err
    assert main(["translation", "--score", str(tmp_path)]) == 2
    assert "--score needs --test" in capsys.readouterr().err
    assert main(["translation", "--score", str(tmp_path), "--test", str(path)]) == 2
    assert "without source.spm" in capsys.readouterr().err
    assert main(["translation", "--model", "torch", "--save", str(tmp_path)]) == 2
    assert "--model must be recurrent or transformer" in capsys.readouterr().err


def test_the_tables_of_the_page():
    def run(name, seed, greedy, beam=None):
        bleu = {"greedy": greedy} if beam is None else {"greedy": greedy, "beam": beam}
        result = {"bleu": bleu, "valid_loss": 2.5, "parameters": 1_930_000}
        result |= {"fit_seconds": 1234.4, "fit_cpu_seconds": 900.0}
        return {"attention": name, "seed": seed, "result": result}

    raw = {
        "translation-transformer": {
            "runs": [run("transformer", 1, 33.0, 35.0), run("transformer", 0, 34, 36)]
        },
        "translation-torch": {"runs": [run("torch", 0, 34.25)]},
        "translation-bahdanau": {"runs": [run("bahdanau", 0, 33.1, 34.2)]},
        "translation-heads": {"text": "none of these"},
    }
    tables = report.tables(raw)
    assert tables["transformer"].split("\n")[2:] == [
        "| ours | 0 | 2.500 | 34.00 | 36.00 | 900 |",
        "| ours | 1 | 2.500 | 33.00 | 35.00 | 900 |",
        "| ours | mean | 2.500 | 33.50 | 35.50 | 900 |",
        "| `torch.nn.Transformer` | 0 | 2.500 | 34.25 |  | 900 |",
    ]
    line = "| with Bahdanau's attention | 0 | 1.9 | 2.500 | 33.10 | 34.20 | 1,234 |"
    assert tables["recurrent"].split("\n")[2:] == [line]


@pytest.mark.parametrize("name", ["epochs", "pairs", "units"])
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
