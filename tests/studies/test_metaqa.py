"""The benchmark on MetaQA, on a few facts and questions in its format."""

import json

import keras
import numpy as np
import pytest
from calling import needs_training

from keras_attention.datasets import triples
from studies import command_line
from studies.metaqa import command as metaqa
from studies.metaqa import hops as metaqa_hops
from studies.metaqa import regression as metaqa_regression

FACTS = [
    (f"Film {i}", relation, f"{who} {i // share}")
    for i in range(40)
    for relation, who, share in (("directed_by", "Ann", 2), ("release_year", "19", 5))
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Films with one director and one year each; two films are called Film 0."""
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    root = tmp_path / "kb" / "metaqa"
    root.mkdir(parents=True)
    lines = ["|".join(fact) for fact in [*FACTS, ("Film 0", "directed_by", "Bo 1")]]
    (root / "kb.txt").write_text("\n".join(lines))
    asked = {"directed_by": "who directed [{}]", "release_year": "when was [{}] shown"}
    questions = [f"{asked[r].format(s)}\t{o}" for s, r, o in FACTS]
    for name in ("1-hop/vanilla/qa_dev.txt", "1-hop/vanilla/qa_test.txt"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(questions))
    return tmp_path


@needs_training
def test_command(folder, capsys):
    path = folder / "results.json"
    arguments = ["metaqa", "--seeds", "3", "--epochs", "6", "--json", str(path)]
    assert command_line.main([*arguments, "--without-brackets"]) == 0
    results = json.loads(path.read_text("utf-8"))
    (run,) = results["runs"]
    assert run["seed"] == 3
    assert run["test_questions"] == 80
    assert run["one_set_questions"] == 79  # not: who directed Film 0
    assert run["ceiling"] == 99.38  # 79 questions, and one of two directors
    assert run["network"] > 90
    assert run["right_path"]["network"] >= run["network"]
    assert run["regression"] > 90
    assert results["data"]["test"]["entity_by_brackets"] == 0
    assert results["entities"] == "found by their names"
    printed = capsys.readouterr().out
    assert "seed 3: hits@1" in printed


@needs_training
def test_own_questions(folder, capsys):
    own, out = folder / "own.txt", folder / "runs.jsonl"
    own.write_text(
        "tell me, please, who it was that directed [Film 7]\tAnn 3\n"
        "when was [Film 12] shown\t19 2\n"
        "when was [No such film] shown\t19 2\n"
    )
    path = folder / "results.json"
    arguments = ["metaqa", "--seeds", "3", "--epochs", "1", "--out", str(out)]
    assert (
        command_line.main([*arguments, "--questions", str(own), "--json", str(path)])
        == 0
    )
    results = json.loads(path.read_text("utf-8"))
    assert results["questions"] == str(own)
    assert results["data"]["test"]["entity_unknown"] == 1
    (run,) = results["runs"]
    assert run["test_questions"] == 3
    assert run["one_set_questions"] == 2
    assert run["ceiling"] == 66.67
    printed = capsys.readouterr().out
    assert "own.txt" in printed


def write_three_hops(folder):
    """Questions about the films of a film's director; of 84, 12 are held back."""
    root = folder / "kb" / "metaqa"
    root.mkdir(parents=True)
    facts = [
        (f"Film {i}", relation, value)
        for i in range(84)
        for relation, value in (
            ("directed_by", f"Ann {i // 3}"),
            ("written_by", f"Bo {i // 4}"),
            ("release_year", f"{1900 + i % 50}"),
        )
    ]
    (root / "kb.txt").write_text("\n".join("|".join(fact) for fact in facts))
    lines = []
    for i in range(84):
        same = [j for j in range(84) if j // 3 == i // 3 and j != i]
        years = "|".join(f"{1900 + j % 50}" for j in same)
        lines.append(f"when came out what the director of [Film {i}] made\t{years}")
    path = root / "3-hop" / "vanilla" / "qa_dev.txt"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines))


@pytest.mark.release
@needs_training
def test_three_hops(tmp_path, monkeypatch, capsys):
    write_three_hops(tmp_path)
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    own, path = tmp_path / "own.txt", tmp_path / "results.json"
    own.write_text(
        "when came out what the director of [Film 7] made\t1906|1908\n"
        "when came out what the director of [Film 7] made\tAnn 2\n"
        "when came out what the director of [No such film] made\t1906\n"
    )
    monkeypatch.setitem(metaqa.MEMORY_SIZE, 3, 8)
    quick = {"batch_size": 4, "rate": 0.01, "halve_every": 9}  # few questions
    monkeypatch.setattr(metaqa, "THREE_HOPS", {**metaqa.THREE_HOPS, **quick})
    arguments = ["metaqa", "--hops", "3", "--seeds", "1", "--json", str(path)]
    assert command_line.main([*arguments, "--epochs", "9"]) == 0
    results = json.loads(path.read_text("utf-8"))
    (run,) = results["runs"]
    assert run["test_questions"] == 13
    assert run["ceiling"] == run["network"] == run["regression"] == 100
    assert run["facts_read"] == [3, 2, 6]
    assert run["memories_cut"] == [0, 0, 0]
    assert results["data"]["dev"]["no_path"] == 0
    assert "PullNet" in capsys.readouterr().out

    asked = ["--epochs", "1", "--questions", str(own)]
    assert command_line.main([*arguments, *asked]) == 0
    results = json.loads(path.read_text("utf-8"))
    (run,) = results["runs"]
    assert run["test_questions"] == 3
    assert results["data"]["test"]["entity_unknown"] == 1
    assert run["ceiling"] == 66.67
    assert "PullNet" not in capsys.readouterr().out


def test_the_split_of_three_hops():
    asked = triples.Asked(np.arange(14_274)[:, None], np.arange(14_274), [[]] * 14_274)
    data = metaqa_hops.HopData(asked, [None] * 14_274, {})
    parts = metaqa_hops.split(data, 1)
    assert [len(part.paths) for part in parts] == [10_000, 2_000, 2_274]
    starts = np.concatenate([part.asked.starts for part in parts])
    assert sorted(starts) == list(range(14_274))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must have at least one question"),
        ("who directed [Film 7]", "own.txt, line 1: a line must be a question, a tab"),
        (None, "own.txt"),
    ],
)
def test_own_questions_are_checked_first(content, message, folder, capsys):
    own = folder / "own.txt"
    if content is not None:
        own.write_text(content)
    assert command_line.main(["metaqa", "--questions", str(own)]) == 2
    assert message in capsys.readouterr().err


def test_a_stopped_benchmark_goes_on(folder, monkeypatch, capsys):
    out, summary = folder / "runs.jsonl", folder / "all.json"
    done = []

    def run(seed, data, hops, training):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(seed)
        shares = {"network": 9.0, "regression": 8.0}
        return {
            **{"seed": seed, **shares, "ceiling": 7.0, "fit_seconds": 1.0},
            **{"right_path": shares, "one_set": shares},
        }

    monkeypatch.setattr(metaqa, "run", run)
    common = ["metaqa", "--out", str(out), "--json", str(summary)]
    with pytest.raises(KeyboardInterrupt):
        command_line.main([*common, "--seeds", "2", "5", "7"])
    assert not summary.exists()
    whole = out.read_text("utf-8").replace(f'"{keras.__version__}"', '"3.99"')
    out.write_text(whole[:-9], encoding="utf-8")
    first, done = done, []
    assert command_line.main([*common, "--seeds", "2", "5", "5"]) == 0
    assert (first, done) == ([2, 5], [5])
    assert "the last line was half-written" in capsys.readouterr().out
    results = json.loads(summary.read_text("utf-8"))
    assert [run["seed"] for run in results["runs"]] == [2, 5]
    assert results["versions"]["keras"] == sorted(["3.99", keras.__version__])
    assert results["versions"]["backend"] == [keras.config.backend()]

    assert command_line.main([*common, "--seeds", "2", "--epochs", "3"]) == 2
    assert "runs of metaqa with other settings (training)" in capsys.readouterr().err
    done = []
    assert command_line.main([*common, "--seeds", "2", "--without-brackets"]) == 0
    assert done == [2]  # a run of its own

    with (folder / "kb" / "metaqa" / "1-hop" / "vanilla" / "qa_dev.txt").open(
        "a"
    ) as file:
        file.write("\nwho directed [Film 3]\tAnn 1")
    assert command_line.main([*common, "--seeds", "2"]) == 2
    assert "runs of metaqa with other settings (data)" in capsys.readouterr().err


def test_without_data_the_command_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KERAS_ATTENTION_DATA", str(tmp_path))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    assert command_line.main(["metaqa"]) == 2
    assert "download MetaQA by hand" in capsys.readouterr().err


def test_paths_and_the_best_of_them():
    keys = np.array([[1, 1], [1, 1], [1, 2], [3, 1], [4, 1], [4, 2], [0, 0]])
    values = np.array([3, 4, 5, 6, 6, 7, 0])
    one = metaqa.paths_of(keys, values, 1)
    assert one == {(1,): [3, 4], (2,): [5]}
    assert metaqa.paths_of(keys, values, 2) == {(1, 1): [6], (1, 2): [7]}
    answers = np.zeros(8)
    answers[[3, 4]] = 0.5
    assert metaqa.best_path(one, answers) == ((1,), 1)
    answers[:] = np.arange(8) == 4
    assert metaqa.best_path(one, answers) == ((1,), 0.5)
    assert metaqa.best_path(one, 0 * answers) == (None, 0)
    assert metaqa.best_path({}, answers) == (None, 0)


def test_an_answer_may_be_wrong_and_yet_of_the_right_relation():
    paths = [{(1,): [3, 4], (2,): [5]}] * 3 + [{}]
    best = [((1,), 0.5)] * 3 + [(None, 0.0)]
    found = metaqa.on_path(np.array([3, 4, 5, 3]), paths, best)
    assert found.tolist() == [True, True, False, False]


def test_bigrams_are_counted():
    columns = {(0, 5): 0, (5, 5): 1, (5, 0): 2, (7, 7): 3}
    found = metaqa_regression.counts(np.array([[5, 5, 5, 0], [5, 6, 0, 0]]), columns)
    assert found.tolist() == [[1, 2, 1, 0], [1, 0, 0, 0]]
