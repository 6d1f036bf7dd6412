"""The command `lengths`: what is grouped, scored and written."""

import itertools
import json

import numpy as np
import pytest
from calling import needs_training

from keras_attention.datasets import translation
from studies import command_line
from studies.lengths import command as lengths

WORDS = {"een": "one", "twee": "two", "drie": "three", "vier": "four"}
PAIRS = [
    translation.Pair(" ".join(words), " ".join(WORDS[word] for word in words))
    for length in (1, 2, 5)
    for words in itertools.islice(itertools.product(WORDS, repeat=length), 16)
]


@pytest.fixture
def data(monkeypatch):
    monkeypatch.setattr(translation, "load", lambda *names, **languages: PAIRS)
    settings = {**lengths.TRAINING, "split": "test", "groups": [1, 2, 5]}
    return lengths.Data({**settings, "min_count": 1})


def test_sentences_are_grouped_by_their_words(data):
    assert [data.words[rows].tolist() for rows in data.groups] == [
        [1] * 4,
        [2] * 16,
        [5] * 16,
    ]


def test_bleu_is_that_of_the_sentences_of_a_group(data):
    pytest.importorskip("sacrebleu")
    written = [data.references[text][0] for text in data.texts]
    longest = data.groups[-1]
    for n in longest[:8]:
        written[n] = "five"
    whole = lengths.score(data, written, data.groups[1])
    half = lengths.score(data, written, longest)
    assert whole["exact"] == 1.0
    assert half["exact"] == 0.5
    assert half["bleu"] < 100


def test_a_sentence_may_have_several_translations(data):
    pytest.importorskip("sacrebleu")
    first = data.texts[-1]
    data.references[first].append("another good translation here")
    rows = np.array([len(data.texts) - 1])
    written = [*[""] * (len(data.texts) - 1), "another good translation here"]
    assert lengths.score(data, written, rows)["bleu"] == 100.0


@needs_training
def test_the_command_writes_what_it_measured(data, monkeypatch, tmp_path, capsys):
    pytest.importorskip("sacrebleu")
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(lengths, "GROUPS", (1, 2, 5))
    monkeypatch.setattr(lengths, "WIDTHS", (3, 6))
    small = {"longest": 8, "batch_size": 16, "min_count": 1}
    monkeypatch.setattr(lengths, "TRAINING", {**lengths.TRAINING, **small})
    monkeypatch.setattr(lengths, "TOGETHER", 36)
    json_, page, plot = (tmp_path / name for name in ("a.json", "a.md", "a.png"))
    command = ["lengths", "--units", "4", "--epochs", "1", "--json", str(json_)]
    command += ["--page", str(page), "--plot", str(plot)]
    assert command_line.main(command) == 0
    results = json.loads(json_.read_text("utf-8"))
    assert [run["attention"] for run in results["runs"]] == ["bahdanau", "none"]
    groups = results["runs"][0]["result"]["groups"]
    assert [one["words"] for one in groups] == [1.0, 2.0, 5.0]
    assert [one["sentences"] for one in groups] == [4, 16, 16]
    text = page.read_text("utf-8")
    assert "| source words | sentences | BLEU with attention |" in text
    assert "| 1 | 4 |" in text
    assert plot.stat().st_size > 1000
    assert "without attention" in capsys.readouterr().out


def test_errors_of_usage(capsys):
    for option in ("--epochs", "--units", "--pairs"):
        assert command_line.main(["lengths", option, "0"]) == 2
        assert f"{option} must be at least 1" in capsys.readouterr().err
