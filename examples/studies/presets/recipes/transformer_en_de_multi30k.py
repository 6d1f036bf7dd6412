"""Transformer from English to German, on captions of photographs.

Multi30k is for non-commercial research and education only, so the package contains no
network that learned from it.
"""

from __future__ import annotations

from typing import Any

from keras_attention.datasets import translation
from studies.presets.recipe import Recipe
from studies.presets.recipes import _translators as translators
from studies.translation.transformer import MODEL

SIZES = (5000, 6000)  # words of English and of German
EPOCHS = 8
WIDTHS = (14, 20, 34)  # of padded batches


def train(seed: int) -> Any:
    """Trains on the captions of at most 32 words."""
    pairs = translation.load("multi30k", "train", "en", "de")
    return translators.train(pairs, SIZES, MODEL, EPOCHS, WIDTHS, seed)


def measure(model: Any) -> dict[str, float]:
    """Returns the BLEU and the share of exact translations of test captions."""
    pairs = translation.load("multi30k", "test", "en", "de")
    known = translation.load("multi30k", "train", "en", "de")
    return translators.measure(model, pairs, len(pairs), known)


RECIPE = Recipe(
    what="Translates captions of photographs from English to German.",
    data="The 29,000 training captions of Multi30k (Elliott et al., 2016), "
    "https://github.com/multi30k/dataset. The test set is test_2016_flickr.",
    licence="Multi30k: non-commercial research and education only",
    limits="Captions of at most 32 words and marks, of the 5,000 most frequent words. "
    "Other texts than captions are foreign to it.",
    baseline="the translation of the training caption with the most similar words",
    use='model.translate("A dog runs on the beach.")',
    train=train,
    measure=measure,
)
