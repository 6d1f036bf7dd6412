"""Dates in many formats: what they mean, the splits, the vectors."""

import collections
import datetime
import re

import numpy as np
import pytest

from keras_attention.datasets import dates

MONTHS = [f"{datetime.date(1998, m, 1):%b}".lower() for m in range(1, 13)]
DAY = datetime.date(1998, 10, 27)


def read(text):
    """The date that a text means by the stated conventions, written anew."""
    words = re.findall(r"[0-9]+|[a-z]+", text.lower())
    named = [word for word in words if word[:3] in MONTHS]
    numbers = [word for word in words if word.isdigit()]
    if len(numbers) == 1 and not named:
        (whole,) = numbers
        numbers = [whole[:4], whole[4:6], whole[6:]]
    if named:
        numbers.insert(1, str(1 + MONTHS.index(named[0][:3])))
    if len(numbers[0]) == 4:
        numbers.reverse()
    day, month, year = map(int, numbers)
    if len(numbers[2]) == 2:
        year += 1900 if year >= 50 else 2000
    return datetime.date(year, month, day)


def test_formats():
    written = {name: dates.write(DAY, name) for name in dates.FORMATS}
    assert len(dates.SEEN) >= 20
    assert len(dates.UNSEEN) >= 5
    assert (*dates.SEEN, *dates.UNSEEN) == tuple(dates.FORMATS)
    early = {dates.write(datetime.date(2004, 3, 9), name) for name in dates.FORMATS}
    assert len(early) == len(written)
    assert written["weekday-lower"] == "tuesday 27 october 1998"
    assert written["year-month-day"] == "1998 October 27"
    assert written["the-ordinal-of-upper"] == "THE 27TH OF OCTOBER 1998"
    assert written["abbreviated-day-lower"] == "oct 27, 1998"
    assert written["abbreviated-day-short-year"] == "Oct 27, 98"
    assert written["slashes"] == "27/10/1998"
    assert written["year-dots"] == "1998.10.27"
    assert written["the-ordinal-of"] == "the 27th of October 1998"
    assert written["day-abbreviated-apostrophe"] == "27 Oct '98"
    assert written["weekday-abbreviated-comma"] == "Tue, 27 Oct 1998"
    assert dates.write(datetime.date(2004, 3, 9), "slashes-bare") == "9/3/2004"
    assert dates.write(datetime.date(2004, 3, 9), "slashes-short-year") == "09/03/04"


@pytest.mark.parametrize(
    ("day", "text"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (13, "13th"),
        (21, "21st"),
        (22, "22nd"),
        (23, "23rd"),
        (30, "30th"),
    ],
)
def test_ordinals(day, text):
    written = dates.write(datetime.date(2013, 5, day), "ordinal-month")
    assert written == f"{text} May 2013"


@pytest.mark.parametrize("format", dates.FORMATS)
def test_each_format_means_one_date(format):
    last = dates.LAST.toordinal()
    for ordinal in [*range(dates.FIRST.toordinal(), last, 37), last]:
        date = datetime.date.fromordinal(ordinal)
        text = dates.write(date, format)
        assert read(text) == date
        weekday = re.match("(?i)(mon|tue|wed|thu|fri|sat|sun)", text)
        assert weekday is None or weekday[0].lower() == f"{date:%a}".lower()
        assert dates.SOURCE_VOCABULARY.encode(text).count(1) == 0
        assert len(text) <= dates.SOURCE_LENGTH


def test_generate():
    pairs = dates.generate(count=4001, seed=5)
    assert pairs == dates.generate(count=4001, seed=5)
    assert pairs != dates.generate(count=4001, seed=6)
    assert dates.generate(count=0) == []
    for source, target, format in pairs:
        assert target == read(source).isoformat()
        assert source == dates.write(datetime.date.fromisoformat(target), format)
    counts = collections.Counter(pair.format for pair in pairs)
    assert set(counts) == set(dates.SEEN)
    assert min(counts.values()) > 4001 / len(dates.SEEN) / 2


def test_generate_is_the_same_everywhere():
    (pair,) = dates.generate(count=1, seed=7, formats="iso")
    assert pair == ("2044-06-28", "2044-06-28", "iso")


def test_generate_formats():
    held_out = dates.generate(count=211, formats=dates.UNSEEN)
    assert {pair.format for pair in held_out} == set(dates.UNSEEN)
    two = dates.generate(count=31, formats=["iso", "dots"])
    assert {pair.format for pair in two} == {"iso", "dots"}


def test_no_date_is_in_two_splits():
    found = {
        split: {pair.target for pair in dates.generate(5003, seed, split=split)}
        for seed, split in enumerate(("train", "valid", "test"))
    }
    assert not found["train"] & found["test"]
    assert not found["train"] & found["valid"]
    assert not found["valid"] & found["test"]
    years = {target[:4] for target in found["test"]}
    assert len(years) == 100  # every year occurs


def test_vectorize():
    pairs = dates.generate(count=97, seed=3, formats=dates.FORMATS)
    done = []
    inputs, labels = dates.vectorize(
        pairs, progress=lambda *counts: done.append(counts)
    )
    assert done == [(97, 97)]
    assert inputs["source"].shape == (97, 36)
    assert inputs["target"].shape == labels.shape == (97, 11)
    assert {a.dtype.name for a in (*inputs.values(), labels)} == {"int32"}
    assert np.all(inputs["target"][:, 0] == 2)
    assert np.all(labels[:, -1] == 3)
    np.testing.assert_array_equal(inputs["target"][:, 1:], labels[:, :-1])
    assert labels.max() < len(dates.TARGET_VOCABULARY) == 15
    assert inputs["source"].max() < len(dates.SOURCE_VOCABULARY) == 72
    for pair, source, target, label in zip(
        pairs, *inputs.values(), labels, strict=True
    ):
        assert dates.decode(source) == pair.source
        assert dates.decode(target) == dates.decode(label) == pair.target
        assert dates.TARGET_VOCABULARY.decode(label) == pair.target


def test_own_texts_may_be_vectorized():
    inputs, labels = dates.vectorize([("27/10/98", "1998-10-27")])
    assert dates.decode(inputs["source"][0]) == "27/10/98"
    assert inputs["source"][0, :4].tolist() == [6, 11, 18, 5]
    assert labels[0].tolist() == [5, 13, 13, 12, 14, 5, 4, 14, 6, 11, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": -1}, "`count` must .* Received: count=-1"),
        ({"count": 2.5}, "`count` must .* Received: count=2.5"),
        ({"split": "dev"}, "'train', 'valid' or 'test'. Received: split='dev'"),
        ({"formats": ["iso", "us"]}, r"`formats` must .*\bdots\b.* Received: \['us'\]"),
        ({"formats": []}, r"`formats` must .* Received: \(\)"),
    ],
)
def test_generate_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        dates.generate(**arguments)


def test_write_refuses_what_the_short_year_cannot_say():
    for date in (datetime.date(1949, 12, 31), datetime.date(2050, 1, 1)):
        with pytest.raises(ValueError, match=f"1950-01-01 to .* date={date}"):
            dates.write(date, "iso")
    with pytest.raises(ValueError, match="`formats` must be names"):
        dates.write(DAY, "slash")


def test_vectorize_refuses():
    with pytest.raises(ValueError, match=r"`pairs` must .* Received: pairs=\[\]"):
        dates.vectorize([])
    with pytest.raises(ValueError, match=r"source of pairs\[0\] has no tokens"):
        dates.vectorize([("", "1998-10-27")])
    with pytest.raises(ValueError, match=r"at least 40, which pairs\[1\] needs"):
        dates.vectorize([("1998", "1998-10-27"), (40 * "1", "1998-10-27")])


def test_no_date_of_the_data_is_a_mistake():
    for pair in dates.generate(500, seed=5, formats=dates.FORMATS):
        assert dates.mistakes(pair.source, pair.target) == [], pair


@pytest.mark.parametrize(
    ("text", "answer", "said"),
    [
        ("tomorrow", "20016-03-03", "no such date as '20016-03-03'"),
        ("tomorrow", "2016-03-03", "is not in 'tomorrow'"),
        ("29 Feb 2023", "2023-02-29", "no such date as '2023-02-29'"),
        ("29 Feb 2023", "2023-02-28", "'2023-02-28' is not in '29 Feb 2023'"),
        ("4 May 1879", "1979-05-04", "is not in"),
        ("May 2023", "2023-05-20", "is not in"),
        ("20 2023", "2023-05-20", "is not in"),
        ("5 May", "2005-05-05", "is not in"),  # the day cannot be the year, too
        ("19790532", "1979-05-03", "is not in"),
        ("4 Juni 1979", "1979-06-04", "is not in"),
    ],
)
def test_mistakes_are_told(text, answer, said):
    (message,) = dates.mistakes(text, answer)
    assert said in message
    assert "`" not in message
