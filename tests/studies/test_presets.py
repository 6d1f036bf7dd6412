"""Recipes of the presets: their cards, their page and their scores."""

import math
import pathlib

import numpy as np
import pytest

from keras_attention import presets
from studies import command_line
from studies.presets import recipe, report
from studies.presets.recipes import _sentences as shared

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", presets.names())
def test_a_card_says_what_its_recipe_says(name):
    card, found = presets.card(name), recipe.recipe(name)
    for entry in ("what", "data", "licence", "limits", "use"):
        assert card[entry] == getattr(found, entry)


def test_all_presets_are_on_the_page():
    text = (ROOT / "docs" / "guides" / "presets.md").read_text("utf-8")
    cards = [presets.card(name) for name in presets.names()]
    assert text.endswith(report.page(cards)), "python examples/studies/presets page"


def test_the_command(capsys, monkeypatch):
    assert command_line.main(["presets", "train", "nothing"]) == 1
    assert "`name` must be one of" in capsys.readouterr().err
    found = {"error %": 5.0, "only here": 1.0}
    assert recipe.differences(found, {"error %": 5.04, "only here": 1.0}) == {}
    assert set(recipe.differences(found, {"error %": 5.2})) == {"error %", "only here"}
    nan = {"error %": float("nan"), "only here": 1.0}
    assert set(recipe.differences(found, nan)) == {"error %"}
    monkeypatch.setattr(recipe, "measure", lambda name: (found, {"error %": 9.0}))
    assert command_line.main(["presets", "measure", "some"]) == 1
    assert "5.0 on the card, now 9.0" in capsys.readouterr().out


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
