"""The study `long_stories`: its stories, limits, command and picture."""

import json

import numpy as np
import pytest
from calling import needs_training

from keras_attention.datasets import babi
from studies import command_line
from studies.long_stories import command, models, picture, report, stories, testing
from studies.long_stories.stories import WORDS, Stories, Text, tokens_of

# "mary is here" names a person of bAbI, and the fourth sentence is too long.
TEXT = [["we", "eat", "milk"], ["mary", "is", "here"], ["who", "sings"], ["so"] * WORDS]


@pytest.fixture(scope="module")
def vocabulary():
    return stories.vocabulary_of(TEXT)


@pytest.mark.parametrize("task", [1, 3, 5])
def test_facts_are_scattered_in_order_among_distractors(vocabulary, task):
    text = Text(TEXT, vocabulary)
    told = Stories(task, text, vocabulary, 20, [0])
    examples = babi.simulate(task, 20, [0])
    for index in told.fitting(1000)[:5]:
        example = examples[index]
        story = told.story(int(index), 1000, np.random.default_rng(3))
        assert tokens_of(story, vocabulary).shape == (1000 + WORDS + 1,)
        sentences = [tuple(filter(None, vocabulary.decode(s))) for s in story.sentences]
        facts = [s for s in sentences if s in set(example.story)]
        assert facts == list(example.story)
        others = {s for s in sentences if s not in set(example.story)}
        whole = {("we", "eat", "milk"), ("who", "sings")}
        assert whole <= others
        assert len(others - whole) <= 1  # the last one that was drawn may be cut
        supports = [example.story[n] for n in example.supporting_facts]
        assert [sentences[n] for n in story.supports] == supports
        assert vocabulary.decode([story.answer]) == [example.answer]


def test_a_story_is_read_as_words_and_full_stops(vocabulary):
    encode = stories.encoded
    facts = np.stack([encode(s, vocabulary) for s in (["mary", "left"], ["we", "eat"])])
    question = encode(["where", "is", "mary"], vocabulary)
    story = stories.Story(facts, question, 7, np.array([0]))
    words = vocabulary.decode(tokens_of(story, vocabulary))
    assert " ".join(words) == "mary left . we eat " + ". " * 10 + "where is mary ?"


def test_stories_depend_on_the_seed_alone(vocabulary):
    told = Stories(1, Text(TEXT, vocabulary), vocabulary, 20, [0])
    first, again, other = (
        [story.sentences for story in told.sample(200, 3, [seed])] for seed in (1, 1, 2)
    )
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))


def test_times_and_memory_of_a_length_are_extrapolated():
    rows = [
        {"length": 1000, "batch": 32, "seconds": 0.1, "megabytes": 32.0},
        {"length": 4000, "batch": 8, "seconds": 1.6, "megabytes": 32.0},
        {"length": 9000, "skipped": "too slow"},
    ]
    seconds, megabytes = testing.expected(rows, 8000, 4)
    assert seconds == pytest.approx(6.4)  # quadratic
    assert megabytes == pytest.approx(32.0)  # linear: 8 MB a story
    assert testing.expected([], 1000, 1) == (0.0, 0.0)


@needs_training
def test_the_command_trains_tests_and_resumes(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    tests = {**testing.TESTS, "lengths": [64, 128], "stories": [4, 4], "fewest": 2}
    tests["questions"] = 100
    monkeypatch.setattr(command, "TESTS", {**tests, "together": 128})
    monkeypatch.setattr(stories, "VOCABULARY", 100)
    small = {"questions": 200, "lengths": [64], "tokens": 8}
    monkeypatch.setattr(command, "TRAINING", {**command.TRAINING, **small})
    monkeypatch.setattr(command, "size_of", lambda name, task: (8, 1000))
    monkeypatch.setattr(models, "WIDTH", 8)
    monkeypatch.setitem(stories.TEXTS, "made", lambda: (TEXT, TEXT))
    text = tmp_path / "runs.json"
    options = ["long_stories", "--text", "made", "--tasks", "1", "--seeds", "0"]
    options += ["--minutes", "0.001", "--json", str(text), "--models"]
    assert command_line.main([*options, "memnn"]) == 0
    assert command_line.main([*options, "memnn", "window"]) == 0
    runs = json.loads(text.read_text("utf-8"))["runs"]
    assert [run["model"] for run in runs] == ["memnn", "window"]
    for run in runs:
        assert [row["length"] for row in run["result"]["tests"]] == [64, 128]
        assert all(0 <= row["accuracy"] <= 1 for row in run["result"]["tests"])
    raw = {"long-stories": {"runs": runs}}
    assert (
        "| qa1 | MemNN over a large memory, word hash | 1 |"
        in report.tables(raw)["accuracy"]
    )
    left, right = picture.plot_lengths(report.series(raw)).axes
    # The accuracy also has a curve without the hash.
    assert (len(left.lines), len(right.lines)) == (3, 2)
    assert "memnn, task 1, seed 0" in capsys.readouterr().out


def test_errors_of_usage(capsys):
    assert command_line.main(["long_stories", "--minutes", "0"]) == 2
    assert "--minutes must be above 0" in capsys.readouterr().err


def test_networks_are_built_and_a_wrong_size_is_refused():
    task = models.Task(1, 100, 1)
    for name in ("hopfield", "universal", "lstm-attention", "dnc", "gated-delta"):
        assert models.FAMILIES[name].build(task, 4).count_params() > 0
    with pytest.raises(ValueError, match=r"MemN2N has .* weights, not 10"):
        models.sized(models.FAMILIES["memn2n"], task, 10)
