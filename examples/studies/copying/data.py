"""Pairs of sentences with names: simulated dates, and Tatoeba.

A made-up name is a few syllables, such as "Bavoren". Names of training, validation and
test are different.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_attention.datasets import dates, translation
from keras_attention.text import Vocabulary, tokenize

SPLITS = ("train", "valid", "test")
# How a sentence names people and a date, and the order of the names in the target.
SENTENCES = (
    ("meet {0} on {date}", "0"),
    ("call {0} before {date}", "0"),
    ("{0} is away until {date}", "0"),
    ("{0} meets {1} on {date}", "01"),
    ("on {date}, {0} visits {1}", "01"),
    ("{date}: lunch with {0} and {1}", "01"),
    ("{0} is visited by {1} on {date}", "10"),
    ("{0} gets a letter from {1} on {date}", "10"),
    ("on {date}, {0} was seen by {1}", "10"),
)
# In these formats, each part of a date is a word.
FORMATS = (
    *("slashes", "slashes-bare", "day-month", "day-abbreviated", "month-day"),
    *("abbreviated-day", "month-ordinal", "ordinal-month", "the-ordinal-of"),
    *("weekday", "weekday-month-day", "year-month-day"),
)
ONSETS = "b br ch d dr f g gr h j k kl l m mb n nd p r s sh st t tr v w y z"
VOWELS = "a e i o u ai ei ou"
CODAS = "k l m n nd r s sh th v x"


class Test(NamedTuple):
    """Pairs, and the unseen names of each target in their order."""

    pairs: list[tuple[str, str]]
    names: list[list[str]]


class Data(NamedTuple):
    """The pairs to train on, their vocabulary, and the tests by their names."""

    train: list[tuple[str, str]]
    vocabulary: Vocabulary
    tests: dict[str, Test]


def make_names(count: int, seed: int = 0) -> list[str]:
    """Returns different made-up names of two or three syllables."""
    rng = np.random.default_rng(seed)
    onsets, vowels, codas = ONSETS.split(), VOWELS.split(), ["", *CODAS.split()]
    names: dict[str, None] = {}
    while len(names) < count:
        parts: list[str] = []
        for _ in range(rng.integers(2, 4)):
            parts += [str(rng.choice(onsets)), str(rng.choice(vowels))]
        names["".join([*parts, str(rng.choice(codas))]).capitalize()] = None
    return [*names]


def names_of_splits(count: int) -> dict[str, list[str]]:
    """Returns `count` names for training, and a fifth of this for the other splits."""
    few = count // 5
    names = make_names(count + 2 * few)
    ends = (0, count, count + few, count + 2 * few)
    return {s: names[a:b] for s, a, b in zip(SPLITS, ends, ends[1:])}


def dated(settings: dict[str, Any], split: str) -> Data:
    """Simulates sentences with a date and names, and their records.

    "Adeyemi is visited by Okonkwo on May 3, 2021" gives "2021 05 03 Okonkwo Adeyemi".
    No date and no name of a test occurs in training.
    """
    names = names_of_splits(settings["names"])
    sizes = {"train": settings["pairs"], split: settings["tested"]}
    tests = {s: _dated(names[s], s, count) for s, count in sizes.items()}
    train = tests.pop("train").pairs
    return Data(train, _vocabulary(train, settings, False), {"names": tests[split]})


def _dated(names: Sequence[str], split: str, count: int) -> Test:
    rng = np.random.default_rng([7, SPLITS.index(split)])
    pairs, targets = [], []
    for day in dates.generate(count, rng, FORMATS, split):
        sentence, order = SENTENCES[rng.integers(len(SENTENCES))]
        chosen = [str(name) for name in rng.choice(names, 2, replace=False)]
        wanted = [chosen[int(n)] for n in order]
        record = " ".join([*day.target.split("-"), *wanted])
        pairs.append((sentence.format(*chosen, date=day.source), record))
        targets.append(wanted)
    return Test(pairs, targets)


def tatoeba(settings: dict[str, Any], split: str) -> Data:
    """Loads Dutch sentences and their English translations, and renames people.

    A name is a word with a capital on both sides that training never writes in lower
    case. A share of the training pairs with names gets made-up names in their place;
    so do all test pairs with names. The other test pairs stay as they are.
    """
    loaded = {
        s: [pair[:2] for pair in translation.load("tatoeba", s, "nl", "en")]
        for s in ("train", split)
    }
    lower = {
        word
        for pair in loaded["train"]
        for text in pair
        for word in tokenize(text, lowercase=False)
        if word[0].islower()
    }
    rng = np.random.default_rng(7)
    order = rng.permutation(len(loaded["train"]))[: settings["pairs"]]
    made = names_of_splits(settings["names"])
    train = []
    for n in order:
        pair = loaded["train"][n]
        names = names_in(pair, lower)
        if names and rng.random() < settings["renamed"]:
            pair, _ = renamed(pair, names, made["train"], rng)
        train.append(pair)
    named, plain = Test([], []), Test([], [])
    for pair in loaded[split]:
        names = names_in(pair, lower)
        test = named if names else plain
        wanted: list[str] = []
        if names:
            pair, wanted = renamed(pair, names, made[split], rng)
        test.pairs.append(pair)
        test.names.append(wanted)
    vocabulary = _vocabulary(train, settings, True)
    return Data(train, vocabulary, {"names": named, "plain": plain})


def names_in(pair: tuple[str, str], lower: set[str]) -> list[str]:
    """Returns the names that both sides of a pair contain."""
    source, target = (tokenize(text, lowercase=False) for text in pair)
    return [
        word
        for word in dict.fromkeys(source)
        if word[0].isupper() and word in target and word.lower() not in lower
    ]


def renamed(
    pair: tuple[str, str], names: list[str], made: Sequence[str], rng: Any
) -> tuple[tuple[str, str], list[str]]:
    """Replaces names on both sides; returns the new names in the target's order."""
    new = dict(zip(names, map(str, rng.choice(made, len(names), replace=False))))
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, new))})\b(?!['’-]\w)")
    source, target = (pattern.sub(lambda m: new[m[1]], text) for text in pair)
    used = {*new.values()}
    words = tokenize(target, lowercase=False)
    return (source, target), [word for word in words if word in used]


def _vocabulary(
    pairs: Sequence[tuple[str, str]], settings: dict[str, Any], lowercase: bool
) -> Vocabulary:
    texts = [text for pair in pairs for text in pair]
    return Vocabulary.from_sentences(
        texts, min_count=settings["min_count"], lowercase=lowercase
    )
