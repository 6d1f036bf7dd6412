"""The benchmark on SST-2, on a few sentences in its format."""

import gzip
import json

import numpy as np
import pytest
from calling import needs_training

from keras_attention.datasets import sentences
from studies import command_line
from studies.sentiment import command as sentiment
from studies.sentiment import labelled

BAD, GOOD = ("dull", "poor", "flat", "weak"), ("fine", "warm", "wise", "bold")
LINES = [
    f"{start} {word} {thing}\t{label}"
    for start in ("what a", "this is a", "oh , one more", "and so a")
    for label, words in enumerate((BAD, GOOD))
    for word in words
    for thing in ("film", "story", "comedy", "tale", "cast", "plot", "cut", "end")
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "text").mkdir()
    for split, lines in (("train", LINES), ("dev", LINES[::3]), ("test", LINES[::2])):
        path = tmp_path / "text" / f"sst2.{split}.tsv.gz"
        path.write_bytes(gzip.compress("\n".join(lines).encode()))
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    monkeypatch.setitem(sentiment.REGRESSION, "penalties", [1, 64])
    monkeypatch.setitem(sentiment.REGRESSION, "steps", 30)
    monkeypatch.setitem(sentiment.MODEL, "dim", 8)
    monkeypatch.setitem(sentiment.MODEL, "dropout", 0.0)
    monkeypatch.setitem(sentiment.TRAINING, "rate", 2e-2)
    monkeypatch.setitem(sentiment.TRAINING, "batch_size", 16)
    monkeypatch.setitem(sentiment.TRAINING, "word_dropout", 0.1)
    return tmp_path


@pytest.mark.slow
@needs_training
def test_command(folder, capsys):
    out, path = folder / "runs.jsonl", folder / "results.json"
    arguments = ["sentiment", "--seeds", "3", "--epochs", "5"]
    arguments += ["--out", str(out), "--json", str(path)]
    assert command_line.main(arguments) == 0
    regression, network = (r["result"] for r in json.loads(path.read_text())["runs"])
    assert regression["test"] == 100
    assert [row["penalty"] for row in regression["tried"]] == [1, 64]
    assert network["test"] > 95
    assert abs(network["test_int8"] - network["test"]) <= 1
    assert network["dev"] == network["dev_of_epochs"][4] > 95
    printed = capsys.readouterr().out
    assert "network, mean" in printed
    # A finished run is not done again.
    assert command_line.main(arguments) == 0
    assert "seed 3: dev" not in capsys.readouterr().out
    assert len(out.read_text().splitlines()) == 2
    assert command_line.main([*arguments[:3], "--epochs", "4", *arguments[5:]]) == 2
    assert "other settings (epochs)" in capsys.readouterr().err


def test_without_the_data_it_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr(sentences.files, "_probe", lambda url, seconds: "no network")
    assert command_line.main(["sentiment"]) == 2
    assert "put it at text/sst2.train.tsv.gz in a folder" in capsys.readouterr().err
    assert command_line.main(["sentiment", "--epochs", "0"]) == 2


def test_batches_hold_each_sentence_once_with_words_missing():
    tokens = np.zeros((500, 41), "int32")
    lengths = np.random.default_rng(0).integers(1, 42, 500)
    for i, length in enumerate(lengths):
        tokens[i, :length] = 10 + i
    vectors = sentences.Vectors({"tokens": tokens}, np.arange(500))
    batches = sentiment.Batches(vectors, 32, 0.25, seed=0)
    for _ in range(2):
        seen = np.concatenate([batches[i][1] for i in range(len(batches))])
        assert len(seen) == 480
        assert len(set(seen)) == 480
        known = unknown = 0
        for i in range(len(batches)):
            inputs, labels = batches[i]
            found = inputs["tokens"]
            assert found.shape[1] in (22, 41)
            there = found != 0
            assert (there.sum(1) == lengths[labels]).all()
            assert ((found == 1) | (found == 10 + labels[:, None]))[there].all()
            known += (found > 1).sum()
            unknown += (found == 1).sum()
        assert 0.2 < unknown / (known + unknown) < 0.3
        batches.on_epoch_end()


OWN = [
    f"{word} {i}\t{label}"
    for label in ("so", "bad", "ok")
    for i in range(4)
    for word in "ab"
]


@pytest.mark.parametrize("header", [[], ["text\tlabel"], ["", "Text\tClass"]])
def test_own_texts_with_any_labels(tmp_path, header):
    path = tmp_path / "own.tsv"
    path.write_text("\n".join([*header, *OWN, ""]))
    splits, labels = labelled.read(path)
    assert labels == ["bad", "ok", "so"]
    assert [len(splits[name]) for name in sentiment.SPLITS] == [18, 3, 3]
    lines = {f"{s.text}\t{labels[s.label]}" for part in splits.values() for s in part}
    assert lines == {*OWN}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*OWN, "no tab"], r"own\.tsv, line 25: must be a text with words, a tab"),
        ([OWN[0], "a\tb\tc"], "line 2: must be"),
        ([OWN[0], "\tbad"], "line 2: must be"),
        ([OWN[0], "text\t"], "line 2: must be"),
        ([f"spam\ttext {i}" for i in range(9)], "must have two labels or more"),
        ([*OWN, "c\tfew"], r"at least 3 texts each\. Received: .*'few': 1"),
        ([], "must have two labels"),
    ],
)
def test_bad_lines_are_named(tmp_path, lines, message):
    path = tmp_path / "own.tsv"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=message):
        labelled.read(path)
