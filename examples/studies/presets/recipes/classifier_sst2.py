"""TransformerClassifier on sentences of film reviews: positive or negative.

SST-2 is for research only, so the package contains no network that learned from it.
"""

from __future__ import annotations

from typing import Any

from keras_attention.datasets import sentences
from keras_attention.presets.preprocessors import ClassificationPreprocessor
from studies.presets import baselines
from studies.presets.recipe import Recipe
from studies.presets.recipes import _classifiers as classifiers
from studies.sentiment import command as sentiment

CLASSES = ("negative", "positive")
MAX_WORDS = 64
SETTINGS: dict[str, Any] = {**sentiment.MODEL, **sentiment.TRAINING}


def train(seed: int) -> Any:
    """Trains the network of the benchmark "sentiment"."""
    data = sentiment.load(SETTINGS["min_count"])
    model, _ = sentiment.learn(data, seed, SETTINGS)
    model.preprocessor = ClassificationPreprocessor(data.vocabulary, CLASSES, MAX_WORDS)
    return model


def measure(model: Any) -> dict[str, float]:
    """Returns the accuracy on the test sentences; also of a linear classifier."""
    test = sentences.load("sst2", "test")
    right = classifiers.classes(model, [one.text for one in test]) == [
        CLASSES[one.label] for one in test
    ]
    known = sentences.load("sst2", "train")
    plain = baselines.linear(
        [one.text for one in known],
        [one.label for one in known],
        [one.text for one in test],
    ) == [one.label for one in test]
    return {
        "accuracy %": round(100 * float(right.mean()), 1),
        "baseline accuracy %": round(100 * float(plain.mean()), 1),
    }


RECIPE = Recipe(
    what="Tells positive from negative sentences of film reviews.",
    data="The 6,920 training sentences of SST-2 (Socher et al., 2013), "
    "https://aclanthology.org/D13-1170. The test set has 1,821 sentences.",
    licence="SST-2: research only",
    limits="Sentences of at most 64 words and marks, about films. It misses irony, and "
    "knows no neutral sentences.",
    baseline="a linear classifier on words, pairs of words and sequences of two to "
    "five characters",
    use='model.classify("A funny and moving film.")',
    train=train,
    measure=measure,
)
