"""The command `copying`: its names, pairs and scores."""

import json

import numpy as np
import pytest
from calling import needs_training

from keras_attention.datasets import translation
from keras_attention.text import Vocabulary, tokenize
from studies import command_line
from studies.copying import command as copying
from studies.copying import data as pairs_of
from studies.copying import report

SETTINGS = {
    **copying.TRAINING,
    **copying.OF_DATA["dates"],
    **{"names": 20, "pairs": 60, "tested": 40, "min_count": 5},
}


def test_no_name_and_no_date_of_a_test_occurs_in_training():
    data = pairs_of.dated(SETTINGS, "test")
    test = data.tests["names"]
    trained = {word for pair in data.train for text in pair for word in text.split()}
    dates = {" ".join(target.split()[:3]) for _, target in data.train}
    for (source, target), names in zip(test.pairs, test.names):
        words = tokenize(source, lowercase=False)
        assert target.split()[3:] == names
        assert {*names} <= {*words} - trained
        assert all(name not in data.vocabulary for name in names)
        assert " ".join(target.split()[:3]) not in dates
    orders = [order for _, order in pairs_of.SENTENCES]
    assert {"0", "01", "10"} == {*orders}


def test_names_of_tatoeba_are_replaced_on_both_sides(monkeypatch):
    pairs = [
        ("Tom is Mary's broer.", "Tom is Mary's brother."),
        ("We zien Tom in Boston.", "In Boston we see Tom."),
        ("Wat zien we?", "What do we see?"),
    ]
    rows = [translation.Pair(*pair, "") for pair in pairs]
    monkeypatch.setattr(translation, "load", lambda *names: rows)
    settings = {**SETTINGS, **copying.OF_DATA["tatoeba"], "names": 20, "min_count": 1}
    data = pairs_of.tatoeba({**settings, "renamed": 0.0}, "test")
    assert sorted(data.train) == sorted(pairs)
    named, plain = data.tests["names"], data.tests["plain"]
    assert plain.pairs == pairs[2:]
    (source, target), names = named.pairs[1], named.names[1]
    assert source == f"We zien {names[1]} in {names[0]}."
    assert target == f"In {names[0]} we see {names[1]}."
    assert "Tom" not in named.pairs[0][0]
    assert not any(name.lower() in data.vocabulary for name in names)


def test_a_score_counts_the_names_in_their_order():
    vocabulary = Vocabulary(["05", "03"], lowercase=False)
    test = pairs_of.Test([("", "05 03 Li Bo")] * 4, [["Li", "Bo"]] * 4)
    data = pairs_of.Data([], vocabulary, {})
    written = [["05", "03", "Li", "Bo"], ["05", "05", "Li", "Bo"], ["Bo", "Li"], []]
    result = copying.score(written, test, data)
    assert result == {"sentences": 4, "exact": 0.25, "names": 0.5}


@needs_training
@pytest.mark.slow
def test_the_command_writes_what_it_measured(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(copying.OF_DATA, "dates", {**SETTINGS, "epochs": 1})
    monkeypatch.setattr(copying, "MODEL", {**copying.MODEL, "units": 4})
    monkeypatch.setattr(copying, "TOGETHER", 40)
    path = tmp_path / "dates.json"
    options = ["--seeds", "0", "--json", str(path)]
    assert command_line.main(["copying", *options]) == 0
    raw = json.loads(path.read_text())
    assert [run["kind"] for run in raw["runs"]] == ["copy", "none"]
    tests = raw["runs"][1]["result"]["tests"]["names"]
    assert tests["none"]["names"] == 0  # the unknown word is no name
    assert set(tests) == {"none", "replaced"}
    page = report.tables({"dates": raw})["dates"]
    assert page.count("\n") == 4
    assert "names right" in capsys.readouterr().out


def test_unknown_words_are_replaced_by_what_was_attended_to(monkeypatch):
    class Model:
        extra_ids = 0

        def __call__(self, inputs):
            self.read = inputs["target"][:1]

        def generate(self, source, max_length):
            return np.tile([4, 0, 1, 3, 0], (len(source), 1))

    class Recorded:
        def __enter__(self):
            weights = np.zeros((copying.TOGETHER, 5, 2))
            weights[:, 2, 1] = 1  # the unknown word attends to the second word
            return {"decoder": weights}

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(copying, "record_attention", Recorded)
    data = pairs_of.Data([], Vocabulary(["meet"], lowercase=False), {})
    written, replaced = copying.write(Model(), data, [("meet Okonkwo", "")])
    assert written == [["meet", "<unk>"]]
    assert replaced == [["meet", "Okonkwo"]]
