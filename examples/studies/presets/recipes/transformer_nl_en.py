"""Transformer from Dutch to English."""

from __future__ import annotations

from typing import Any

from keras_attention.datasets import translation
from studies.presets.recipe import Recipe
from studies.presets.recipes import _sentences as shared
from studies.presets.recipes import _translators as translators

MODEL: dict[str, Any] = {
    "num_layers": 2,
    "dim": 64,
    "num_heads": 4,
    "intermediate_dim": 256,
    "dropout": 0.1,
    "block": {"norm_first": True},
}
SIZES = (4000, 2800)  # words of Dutch and of English
EPOCHS = 8
TEST = 1000  # sentences, of all lengths


def train(seed: int) -> Any:
    """Trains on the sentences of at most 16 words, in about 6 minutes of one core."""
    pairs = translation.load("tatoeba", "train", "nl", "en")
    return translators.train(pairs, SIZES, MODEL, EPOCHS, shared.WIDTHS, seed)


def measure(model: Any) -> dict[str, float]:
    """Returns the BLEU and the share of exact translations of test sentences."""
    pairs = translation.load("tatoeba", "test", "nl", "en")
    known = translation.load("tatoeba", "train", "nl", "en")
    return translators.measure(model, pairs, TEST, known)


RECIPE = Recipe(
    what="Translates short everyday sentences from Dutch to English.",
    data=shared.TATOEBA.format("The Dutch and English sentences")
    + " A twentieth of the pairs is the test set; none of its sentences occurs in the "
    "training set.",
    licence=shared.LICENCE,
    limits="Sentences of at most 16 tokens (words and punctuation marks), made of the "
    "4,000 most frequent Dutch words; other words are skipped or guessed. The network "
    "often gets the gist but misses the detail, and invents a meaning for unknown "
    "words.",
    baseline="the translation of the training sentence whose words are most similar",
    use='model.translate("Ik heb honger.")',
    train=train,
    measure=measure,
)
