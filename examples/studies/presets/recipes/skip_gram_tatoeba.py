"""SkipGram on English sentences."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.datasets import words
from keras_attention.losses import NegativeSamplingLoss
from keras_attention.models import SkipGram
from keras_attention.text.vocabulary import SPECIAL_TOKENS
from studies.presets import baselines
from studies.presets.recipe import Recipe
from studies.presets.recipes import _sentences as shared
from studies.words import questions

MIN_COUNT, DIM, EPOCHS, RATE = 5, 64, 20, 0.01


def train(seed: int) -> Any:
    """Trains on all sentences, in about a minute of one core."""
    keras.utils.set_random_seed(seed)
    texts = shared.english("all")
    vocabulary = words.Vocabulary.from_sentences(texts, min_count=MIN_COUNT)
    pairs = words.SkipGrams(
        texts,
        vocabulary,
        window=5,
        negatives=5,
        subsample=1e-3,
        batch_size=2048,
        seed=seed,
        shared_negatives=22,
    )
    model = SkipGram(len(vocabulary), DIM, vocabulary.tokens, shared_negatives=True)
    rate = keras.optimizers.schedules.PolynomialDecay(RATE, EPOCHS * len(pairs), 0.0)
    model.compile(keras.optimizers.Adam(rate), NegativeSamplingLoss())
    model.fit(
        iter(pairs),
        steps_per_epoch=len(pairs),
        epochs=EPOCHS,
        shuffle=False,
        verbose=2,
    )
    return model


def measure(model: Any) -> dict[str, float]:
    """Returns how many fixed pairs of related words are near to each other.

    A pair counts as found for each of its words that is among the ten nearest words of
    the other one.
    """
    first = len(SPECIAL_TOKENS)
    known = {*model.words[first:]}
    asked = [pair for pair in questions.load().pairs if {*pair} <= known]
    found = questions.ask(
        list(model.words[first:]),
        model.vectors()[first:],
        questions.Questions(asked, [["man", "woman", "boy", "girl"]]),
    )
    plain = questions.ask(
        list(model.words[first:]),
        baselines.word_vectors(shared.english("all"), model.words[first:]),
        questions.Questions(asked, [["man", "woman", "boy", "girl"]]),
    )
    return {
        "pairs found %": round(100 * float(found.pairs.mean()), 1),
        "baseline pairs found %": round(100 * float(plain.pairs.mean()), 1),
    }


RECIPE = Recipe(
    what="Finds the words nearest to an everyday English word and completes analogies, "
    "with word vectors.",
    data=shared.TATOEBA.format("The English sentences")
    + " The test asks for pairs of related words that were chosen beforehand: the "
    "pairs in examples/studies/words/pairs.txt whose words are in the vocabulary.",
    licence=shared.LICENCE,
    limits="The network knows about 3,000 words in lower case, those that occur at "
    "least five times. It learned from only 300,000 words of text: the neighbours of "
    "frequent words make sense, those of rare words often do not.",
    baseline="positive pointwise mutual information of words that are at most two "
    "places apart, without training",
    use='model.nearest("dog")',
    train=train,
    measure=measure,
)
