"""Dates in many written formats, paired with ISO 8601.

These conventions define the meaning of a text:

- Month and weekday names are English, in full or abbreviated to three letters.
- A numeric date that begins with four digits is year, month, day. Any other numeric
  date is day, month, year, so "03/04/1998" is the 3rd of April.
- Two-digit years from 50 to 99 mean 1950 to 1999, and from 00 to 49 mean 2000 to 2049.
  Dates range from 1950-01-01 to 2049-12-31, so two-digit years are unambiguous.

```python
from keras_attention.datasets import dates

train = dates.generate(count=10_000, seed=1)
inputs, labels = dates.vectorize(train)
unseen_dates = dates.generate(count=1_000, seed=2, split="test")
unseen_formats = dates.generate(1_000, seed=3, formats=dates.UNSEEN, split="test")
dates.decode(labels[0])                  # train[0].target
```
"""

import datetime
import functools
import itertools
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from keras_attention.datasets.choices import check_choice
from keras_attention.datasets.sizes import check_size
from keras_attention.datasets.translation import vectors
from keras_attention.text.vocabulary import Vocabulary

FIRST = datetime.date(1950, 1, 1)
LAST = datetime.date(2049, 12, 31)

_MONTHS = (
    "January February March April May June July August September October November "
    "December"
)
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
# Format fields: {d} is the day, {dd} the two-digit day, {nth} the ordinal "27th"; {m}
# and {mm} the month number, {Month} and {Mon} the month name; {yyyy} and {yy} the year;
# {Weekday} and {Day} the weekday. A field in lower or upper case has such letters.
_SEEN = {
    "iso": "{yyyy}-{mm}-{dd}",
    "year-dots": "{yyyy}.{mm}.{dd}",
    "year-slashes": "{yyyy}/{mm}/{dd}",
    "compact": "{yyyy}{mm}{dd}",
    "slashes": "{dd}/{mm}/{yyyy}",
    "slashes-bare": "{d}/{m}/{yyyy}",
    "slashes-short-year": "{dd}/{mm}/{yy}",
    "dots": "{dd}.{mm}.{yyyy}",
    "dots-short-year": "{dd}.{mm}.{yy}",
    "dashes": "{dd}-{mm}-{yyyy}",
    "dashes-abbreviated": "{dd}-{Mon}-{yyyy}",
    "day-month": "{d} {Month} {yyyy}",
    "day-abbreviated": "{d} {Mon} {yyyy}",
    "two-digit-day-abbreviated": "{dd} {Mon} {yyyy}",
    "day-abbreviated-short-year": "{d} {Mon} {yy}",
    "month-day": "{Month} {d}, {yyyy}",
    "abbreviated-day": "{Mon} {d}, {yyyy}",
    "abbreviated-day-short-year": "{Mon} {d}, {yy}",
    "month-ordinal": "{Month} {nth}, {yyyy}",
    "ordinal-month": "{nth} {Month} {yyyy}",
    "the-ordinal-of": "the {nth} of {Month} {yyyy}",
    "month-day-without-comma": "{Month} {d} {yyyy}",
    "abbreviated-day-without-comma": "{Mon} {d} {yyyy}",
    "year-month-day": "{yyyy} {Month} {d}",
    "year-abbreviated-day": "{yyyy} {Mon} {d}",
    "weekday": "{Weekday} {d} {Month} {yyyy}",
    "weekday-month-day": "{Weekday}, {Month} {d}, {yyyy}",
    "weekday-abbreviated": "{Day} {d} {Mon} {yyyy}",
    "weekday-abbreviated-comma": "{Day}, {dd} {Mon} {yyyy}",
}
for _name, _pattern in [*_SEEN.items()]:
    if "{M" in _pattern:  # the name of a month
        _SEEN[f"{_name}-lower"] = _pattern.lower()
        _SEEN[f"{_name}-upper"] = _pattern.upper()
_UNSEEN = {
    "year-spaces": "{yyyy} {mm} {dd}",
    "dots-bare": "{d}.{m}.{yyyy}",
    "dashes-short-year": "{dd}-{mm}-{yy}",
    "dashes-abbreviated-short-year": "{dd}-{Mon}-{yy}",
    "day-month-comma": "{d} {Month}, {yyyy}",
    "ordinal-abbreviated": "{nth} {Mon} {yyyy}",
    "day-abbreviated-apostrophe": "{d} {Mon} '{yy}",
    "ordinal-of": "{nth} of {Month} {yyyy}",
    "weekday-the-ordinal-of": "{Weekday} the {nth} of {Month} {yyyy}",
}

FORMATS = {**_SEEN, **_UNSEEN}
"""From each format's name to its pattern."""

SEEN = tuple(_SEEN)
"""The names of the formats meant for training."""

UNSEEN = tuple(_UNSEEN)
"""The names of the formats meant to be held out."""

_TARGET_CHARACTERS = "0123456789-"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

TARGET_VOCABULARY = Vocabulary(_TARGET_CHARACTERS, "character", lowercase=False)
"""The digits and "-", from index 4."""

SOURCE_VOCABULARY = Vocabulary(
    _TARGET_CHARACTERS + " ,./'" + _LETTERS + _LETTERS.upper(),
    "character",
    lowercase=False,
)
"""The characters of `TARGET_VOCABULARY`, with the same indices, and all others."""

SOURCE_LENGTH = 36  # the longest source: "Wednesday the 27th of September 1998"
TARGET_LENGTH = 11  # ten characters plus the start or end token

_SPLITS = {"train": range(2, 10), "valid": range(1, 2), "test": range(1)}


class Pair(NamedTuple):
    """A written date and its ISO 8601 form.

    Attributes:
        source: The written date, for example `"Oct 27, 98"`.
        target: The ISO 8601 date, for example `"1998-10-27"`.
        format: The name of the source's format, a key of `FORMATS`.
    """

    source: str
    target: str
    format: str


def write(date: datetime.date, format: str) -> str:
    """Writes a date in one of the formats.

    Args:
        date: From 1950-01-01 to 2049-12-31.
        format: A key of `FORMATS`.

    Returns:
        The text.

    Raises:
        ValueError: The format is unknown, or the date is out of range.

    Example:
        ```python
        write(datetime.date(1998, 10, 27), "the-ordinal-of")
        # "the 27th of October 1998"
        ```
    """
    _check_formats([format])
    if not FIRST <= date <= LAST:
        raise ValueError(
            f"`date` must be from {FIRST} to {LAST}. Received: date={date}"
        )
    month = _MONTHS.split()[date.month - 1]
    weekday = _WEEKDAYS.split()[date.weekday()]
    fields = {
        **{"d": f"{date.day}", "dd": f"{date.day:02}"},
        "nth": f"{date.day}{_ending(date.day)}",
        **{"m": f"{date.month}", "mm": f"{date.month:02}"},
        **{"yyyy": f"{date.year}", "yy": f"{date.year % 100:02}"},
        **{"Month": month, "Mon": month[:3], "Weekday": weekday, "Day": weekday[:3]},
    }
    lower = {name.lower(): text.lower() for name, text in fields.items()}
    upper = {name.upper(): text.upper() for name, text in fields.items()}
    return FORMATS[format].format(**{**lower, **upper, **fields})


def generate(
    count: int = 10_000,
    seed: int | Sequence[int] | np.random.SeedSequence | np.random.Generator = 0,
    formats: Iterable[str] | None = None,
    split: str = "train",
) -> list[Pair]:
    """Generates pairs of a written date and its ISO 8601 form.

    Date and format are sampled independently and uniformly. Each date always belongs to
    the same split, whatever the seed: about 80 % to `"train"`, 10 % to `"valid"` and 10
    % to `"test"`. The splits share no dates.

    Args:
        count: Number of pairs.
        seed: Seed for `numpy.random.default_rng`. The same seed gives the same pairs.
        formats: Names from `FORMATS`. Defaults to `SEEN`. Use `UNSEEN` to test a model
            on formats it was not trained on.
        split: `"train"`, `"valid"` or `"test"`.

    Returns:
        A list of `count` `Pair`s.

    Raises:
        ValueError: `count` is below 0, `formats` is empty or has an unknown name, or
            `split` is unknown.

    Example:
        ```python
        pairs = generate(count=3, seed=7, formats=["slashes", "iso"])
        ```
    """
    check_size("count", count, least=0)
    check_choice("split", split, _SPLITS)
    names = SEEN if formats is None else _check_formats(formats)
    days = _days(split)
    rng = np.random.default_rng(seed)
    chosen_days = rng.integers(len(days), size=count)  # (N,)
    chosen_names = rng.integers(len(names), size=count)  # (N,)
    return [
        Pair(write(days[day], names[name]), days[day].isoformat(), names[name])
        for day, name in zip(chosen_days, chosen_names, strict=True)
    ]


def vectorize(
    pairs: Iterable[Sequence[str]], progress: Callable[[int, int], object] | None = None
) -> vectors.Vectors:
    """Turns N pairs into arrays of character indices.

    Args:
        pairs: Pairs of source and target, such as the output of `generate`.
        progress: Called with the number of finished pairs and the total.

    Returns:
        `Vectors`. The inputs are `"source"`, (N, 36) int32, and `"target"`, (N, 11)
        int32. A target begins with the start token (2). The labels, (N, 11) int32, end
        with the end token (3). Padding is 0.

    Raises:
        ValueError: `pairs` is empty, a source is empty, or a text is too long.

    Example:
        ```python
        inputs, labels = vectorize(generate(count=100))
        ```
    """
    return vectors.vectorize(
        pairs,
        SOURCE_VOCABULARY,
        TARGET_VOCABULARY,
        source_length=SOURCE_LENGTH,
        target_length=TARGET_LENGTH,
        progress=progress,
    )


def decode(indices: Iterable[int]) -> str:
    """Converts indices of a source or target to text, up to the end token.

    Example:
        ```python
        inputs, labels = vectorize(generate(count=1))
        decode(labels[0]), decode(inputs["source"][0])
        ```
    """
    return SOURCE_VOCABULARY.decode(indices)


def mistakes(text: str, answer: str) -> list[str]:
    """Returns why an answer cannot be the ISO 8601 date of a text, if so.

    The day, the month and the year must be at different places of the text. The order
    of two numbers is not checked.
    """
    try:
        date = datetime.date.fromisoformat(answer)
    except ValueError:
        return [f"There is no such date as {answer!r}, which was written for {text!r}."]
    parts = re.findall(
        r"\d+|[a-z]+", re.sub(r"\b(\d{4})(\d\d)(\d\d)\b", r"\1 \2 \3", text.lower())
    )
    month = _MONTHS.split()[date.month - 1].lower()
    days, months = ((f"{n}", f"{n:02}") for n in (date.day, date.month))
    years = f"{date.year}", f"{date.year % 100:02}"
    for day, named, year in itertools.permutations(parts, 3):
        is_month = named in months or (len(named) > 2 and month.startswith(named))
        if day in days and is_month and year in years:
            return []
    return [f"The day, the month or the year of {answer!r} is not in {text!r}."]


def _ending(day: int) -> str:
    if day in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def _check_formats(formats: Iterable[str]) -> tuple[str, ...]:
    names = (formats,) if isinstance(formats, str) else tuple(formats)
    unknown = [name for name in names if name not in tuple(FORMATS)]
    if unknown or not names:
        raise ValueError(
            f"`formats` must be names out of {', '.join(FORMATS)}. "
            f"Received: {unknown or names}"
        )
    return names


@functools.cache
def _days(split: str) -> tuple[datetime.date, ...]:
    """Returns all dates of a split. A checksum of the ISO form determines the split."""
    days = (
        datetime.date.fromordinal(ordinal)
        for ordinal in range(FIRST.toordinal(), LAST.toordinal() + 1)
    )
    shares = _SPLITS[split]
    return tuple(
        day for day in days if zlib.crc32(day.isoformat().encode()) % 10 in shares
    )
