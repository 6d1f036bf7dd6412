"""Seq2Seq that writes dates in the ISO 8601 form, the network of examples/dates.py."""

from __future__ import annotations

import re
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import dates
from keras_attention.models import Seq2Seq
from keras_attention.presets.preprocessors import CharacterPreprocessor
from studies.presets.recipe import Recipe

PAIRS, EPOCHS, BATCH = 20_000, 8, 64
# Twelve forms, and how the card writes them.
FORMS = {
    "iso": "1979-05-04",
    "year-slashes": "1979/05/04",
    "slashes": "04/05/1979",
    "dots-short-year": "04.05.79",
    "day-month": "4 May 1979",
    "day-month-lower": "4 may 1979",
    "day-month-upper": "4 MAY 1979",
    "month-day": "May 4, 1979",
    "month-ordinal-upper": "MAY 4TH, 1979",
    "the-ordinal-of": "the 4th of May 1979",
    "weekday-month-day": "Friday, May 4, 1979",
    "year-month-day": "1979 May 4",
}
EACH = 200  # test dates of each form
MONTHS = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)


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
    """Returns the shares of new dates that are right, in percent.

    Of 1,000 dates in the formats of training, of 1,000 in new ones, and of 200 in each
    of `FORMS`: the lowest share.
    """
    tests = {
        "right %": dates.generate(1000, 1, split="test"),
        "right in new formats %": dates.generate(1000, 2, dates.UNSEEN, "test"),
    }
    figures = {name: _right(model, pairs) for name, pairs in tests.items()}
    each = [
        _right(model, dates.generate(EACH, 3 + n, form, "test"))
        for n, form in enumerate(FORMS)
    ]
    plain = [
        read(pair.source) == pair.target for pairs in tests.values() for pair in pairs
    ]
    return {
        **figures,
        "least right of twelve forms %": min(each),
        "baseline right in all formats %": round(100 * float(np.mean(plain)), 2),
    }


def read(text: str) -> str:
    """Reads a date by rules, from the numbers and the name of a month in a text."""
    text = text.lower()
    numbers = re.findall("[0-9]{8}", text) or re.findall("[0-9]+", text)
    if len(numbers) == 1:
        numbers = [text[:4], text[4:6], text[6:]]
    names = [n for n, name in enumerate(MONTHS, 1) if re.search(rf"\b{name}", text)]
    if names:
        numbers.insert(1, str(names[0]))
    if len(numbers[0]) == 4:
        numbers.reverse()
    day, month, year = map(int, numbers)
    if len(numbers[2]) == 2:
        year += 1900 if year >= 50 else 2000
    return f"{year}-{month:02}-{day:02}"


def _right(model: Any, pairs: list[dates.Pair]) -> float:
    written = model.translate([pair.source for pair in pairs])
    right = [text == pair.target for text, pair in zip(written, pairs)]
    return round(100 * float(np.mean(right)), 2)


RECIPE = Recipe(
    what="Writes a date in the ISO 8601 form, such as 1979-05-04.",
    data="20,000 dates from 1950 to 2049, written in 67 formats (datasets.dates). The "
    "twelve forms listed under Limits are among these formats. The test dates are not "
    "in training.",
    licence="Simulated by this package: Apache 2.0",
    limits="It reads English names of months. In forms such as 04/05/1979, the day "
    "comes before the month. Years are 1950 to 2049. The twelve forms: "
    f"{'; '.join(FORMS.values())}. For a text that is not a date (up to 36 "
    "characters), the network still writes a date; for a format outside of training, "
    "it sometimes writes a wrong date.",
    baseline="a function of 16 lines that reads numbers and the name of a month",
    use='model.translate("4 May 1979")',
    train=train,
    measure=measure,
    calibrate=calibrate,
)
