"""Seq2Seq that writes dates in the ISO 8601 form, the network of examples/dates.py."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from keras_attention.datasets import dates
from keras_attention.models import Seq2Seq
from keras_attention.presets.preprocessors import CharacterPreprocessor
from studies.presets.recipe import Recipe

PAIRS, EPOCHS, BATCH = 10_000, 8, 64


def train(seed: int) -> Any:
    """Trains the network of examples/dates.py, in about a minute."""
    inputs, labels = dates.vectorize(dates.generate(PAIRS, seed))
    keras.utils.set_random_seed(seed)
    model = Seq2Seq(
        len(dates.SOURCE_VOCABULARY),
        len(dates.TARGET_VOCABULARY),
        embedding_dim=32,
        units=64,
    )
    rate = keras.optimizers.schedules.CosineDecay(0.004, EPOCHS * -(-PAIRS // BATCH))
    model.compile(
        keras.optimizers.Adam(rate, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
    )
    model.fit(inputs, labels, BATCH, EPOCHS, verbose=0)
    model.preprocessor = CharacterPreprocessor(
        dates.SOURCE_VOCABULARY,
        dates.TARGET_VOCABULARY,
        dates.SOURCE_LENGTH,
        dates.TARGET_LENGTH,
    )
    return model


def calibrate(model: Any, seed: int) -> None:
    """Lets the preprocessor flag what cannot be the date of a text."""
    model.preprocessor.writes = "date"


def measure(model: Any) -> dict[str, float]:
    """Returns the shares of 1,000 new dates that are right, in percent."""
    tests = {
        "right %": dates.generate(1000, 1, split="test"),
        "right in new formats %": dates.generate(1000, 2, dates.UNSEEN, "test"),
    }
    return {name: _right(model, pairs) for name, pairs in tests.items()}


def _right(model: Any, pairs: list[dates.Pair]) -> float:
    written = model.translate([pair.source for pair in pairs])
    right = [text == pair.target for text, pair in zip(written, pairs)]
    return round(100 * float(np.mean(right)), 2)


RECIPE = Recipe(
    what="Writes a date in the ISO 8601 form, such as 1979-05-04.",
    data="10,000 dates from 1950 to 2049, written in 26 formats (datasets.dates). The "
    "dates of the tests are not in training.",
    licence="Simulated by this package: Apache 2.0",
    limits="It reads English names of months, and day before month if both are "
    "numbers. Years are 1950 to 2049. A text of up to 36 characters that is no date "
    "also gives a date, and formats outside of training sometimes a wrong one.",
    use='model.translate("4 May 1979")',
    train=train,
    measure=measure,
    calibrate=calibrate,
)
