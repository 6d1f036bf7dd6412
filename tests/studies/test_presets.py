"""Recipes of the presets: their cards, their page and their scores."""

import json
import math
import pathlib

import numpy as np
import pytest

from keras_attention import presets
from studies import command_line
from studies.presets import baselines, command, recipe, report
from studies.presets.recipes import _sentences as shared

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", presets.names())
def test_a_card_says_what_its_recipe_says(name):
    card, found = presets.card(name), recipe.recipe(name)
    for entry in recipe.TEXTS:
        assert card[entry] == getattr(found, entry)


@pytest.mark.parametrize("name", presets.names())
def test_a_card_has_the_figures_of_a_plain_baseline(name):
    card = presets.card(name)
    assert card["baseline"]
    assert any(figure.startswith("baseline ") for figure in card["figures"])


def test_all_presets_are_on_the_page():
    text = (ROOT / "docs" / "guides" / "presets.md").read_text("utf-8")
    cards = [presets.card(name) for name in presets.names()]
    assert text.endswith(report.page(cards)), "python examples/studies/presets page"


def test_a_linear_classifier_learns_words():
    texts = ["win a prize", "free prize now", "see you soon", "home now", "cheap pills"]
    texts += ["see you at home", "pills for free", "soon at home"]
    labels = [1, 1, 0, 0, 2, 0, 2, 0]
    tests = ["a free prize", "you at home", "cheap pill", "zzz"]
    assert baselines.linear(texts, labels, tests).tolist() == [1, 0, 2, 0]


def test_counts_of_words_give_probabilities():
    rows = [[2, 4, 5, 3], [2, 4, 6, 3], [2, 5, 3]]
    counts = baselines.NGrams(rows, 7)
    for context in ([], [2], [2, 4], [4, 5], [6, 6], [9, 9]):
        total = sum(counts.probability(context, token) for token in range(7))
        assert math.isclose(total, 1), context
    # By hand: 4 follows 2 in two of three rows, and 2 has two kinds of followers.
    shorter = (2 - 0.75) / 8 + 0.75 * 4 / 8 / 7
    assert math.isclose(counts.probability([2], 4), (1.25 + 1.5 * shorter) / 3)


def test_the_most_similar_text():
    texts = ["the cat sleeps", "the dog sleeps", "a bird sings"]
    assert baselines.nearest_text(texts, ["the bird", "my dog", "nothing"]) == [2, 1, 0]
    story = [["mary", "went", "home"], ["john", "took", "milk"]]
    assert baselines.last_mention(story, ["where", "is", "mary"]) == "home"


def test_the_command(capsys, monkeypatch, tmp_path):
    assert command_line.main(["presets", "train", "nothing"]) == 1
    assert "`name` must be one of" in capsys.readouterr().err
    found = {"error %": 5.0, "only here": 1.0}
    assert recipe.differences(found, {"error %": 5.04, "only here": 1.0}) == {}
    assert set(recipe.differences(found, {"error %": 5.2})) == {"error %", "only here"}
    nan = {"error %": float("nan"), "only here": 1.0}
    assert set(recipe.differences(found, nan)) == {"error %"}
    monkeypatch.setattr(recipe, "measure", lambda name: (found, {"error %": 9.0}))
    raw = tmp_path / "raw.json"
    assert command_line.main(["presets", "measure", "some", "--json", str(raw)]) == 1
    assert "5.0 on the card, now 9.0" in capsys.readouterr().out
    results = json.loads(raw.read_text("utf-8"))
    assert results["benchmark"] == "presets"
    assert results["figures"] == {"some": {"error %": 9.0}}
    card = dict.fromkeys(command.TRAINED, 3) | {"figures": {"right %": 99.5}}
    monkeypatch.setattr(recipe, "train", lambda *args: card)
    assert command_line.main(["presets", "train", "some", "--json", str(raw)]) == 0
    table = report.tables({"seq2seq_dates": json.loads(raw.read_text("utf-8"))})
    assert "| right | 99.5 % |\n| training time | 3 s |" in table["dates"]


def test_bleu():
    same = ["The cat sat on the mat ."]
    assert math.isclose(shared.bleu(same, [same]), 100)
    assert shared.bleu(["a b c d"], [["e f g h"]]) == 0
    # Of 4, 3, 2 and 1 grams, 4, 3, 2 and 1 are right; 4 words are written for 5.
    short = shared.bleu(["a b c d"], [["a b c d e", "x"]])
    assert math.isclose(short, 100 * math.exp(1 - 5 / 4))
    # A word counts as often as in one reference. By hand: 3/4, 2/3, 1/2 and 0/1.
    assert shared.bleu(["a b c c"], [["a b c"]]) == 0
    mixed = shared.bleu(["a b c d c"], [["a b c d e"]])
    right = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert math.isclose(mixed, 100 * right)


def test_the_mean_loss_leaves_padding_out():
    logits = np.log([[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]])
    found = shared.mean_loss(logits + 7, np.array([[1, 2, 0]]))
    assert math.isclose(found, -(math.log(0.25) + math.log(0.1)) / 2)
