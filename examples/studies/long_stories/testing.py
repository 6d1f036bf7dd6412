"""Tests a trained network on stories of every length that it can hold.

Each length has its accuracy, the CPU time of a story, and the peak of memory. A length
is left out if its time or its memory, extrapolated from the shorter lengths, is above
the limits; its row then says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import babi
from keras_attention.models import WordHash
from studies.long_stories.models import Family
from studies.long_stories.stories import Stories, Story
from studies.long_stories.training import arrays, most_sentences

Row = dict[str, Any]
TESTS: dict[str, Any] = {
    "lengths": [1_000, 4_000, 16_000, 100_000, 1_000_000],
    "stories": [200, 200, 100, 100, 50],
    "questions": 2000,
    "fewest": 20,  # stories: fewer are not worth a row
    "seconds": 100,  # of a processor, at most, for all stories of a length
    "megabytes": 4000,
    "together": 2**18,  # tokens of a batch
    "max_share": 0.1,  # of the word hash: names are in up to 3 % of short stories
}
FIRST_TEST = 2  # first number of a seed


def tested(
    model: keras.Model,
    family: Family,
    stories: Stories,
    vocabulary: babi.Vocabulary,
    settings: Row,
) -> list[Row]:
    """Returns a row for each length; the stories are the same for all networks."""
    rows: list[Row] = []
    for length, count in zip(settings["lengths"], settings["stories"]):
        batch = int(np.clip(settings["together"] // length, 1, 32))
        row = {"length": length}
        seconds, megabytes = expected(rows, length, batch)
        count = min(count, int(settings["seconds"] / max(seconds, 1e-9)))
        if megabytes > settings["megabytes"]:
            row["skipped"] = f"about {megabytes:,.0f} MB expected"
        elif count < settings["fewest"]:
            row["skipped"] = f"about {seconds:,.0f} s a story expected"
        else:
            told = stories.sample(length, count, [FIRST_TEST, length])
            row |= {"stories": count, "batch": batch}
            if family.reads == "supports":
                row |= _with_memory(model, told, settings["max_share"])
            else:
                size = most_sentences(stories, length)
                row |= _at_once(model, family, told, vocabulary, batch, size)
        rows.append(row)
        print(row, flush=True)
    return rows


def expected(rows: list[Row], length: int, batch: int) -> tuple[float, float]:
    """Extrapolates the seconds of a story and the megabytes of a batch."""
    rows = [row for row in rows if "skipped" not in row][-2:]
    if not rows:
        return 0.0, 0.0
    found = []
    for name in ("seconds", "megabytes"):
        power = 1.0
        per = [r[name] / (r["batch"] if name == "megabytes" else 1) for r in rows]
        if len(rows) == 2 and min(per) > 0:
            ratio = np.log(per[1] / per[0])
            ratio /= np.log(rows[1]["length"] / rows[0]["length"])
            power = float(np.clip(ratio, 1, 2))
        found.append(per[-1] * (length / rows[-1]["length"]) ** power)
    return found[0], found[1] * batch


def _at_once(
    model: keras.Model,
    family: Family,
    told: Iterator[Story],
    vocabulary: babi.Vocabulary,
    batch: int,
    size: int,
) -> Row:
    """Reads each story as a whole. The first of several batches is not measured."""
    right: list[bool] = []
    seconds: list[float] = []
    peaks: list[int] = []
    while part := list(itertools.islice(told, batch)):
        count = len(part)
        part += part[-1:] * (batch - count)  # one shape for all batches
        x, answers = arrays(family, part, vocabulary, size)
        first, start = reset_peak(), time.process_time()
        logits = model.predict_on_batch(x)
        seconds.append(time.process_time() - start)
        peaks.append(read_peak() - first)
        right += (np.asarray(logits).argmax(-1) == answers)[:count].tolist()
    compiled = slice(1, None) if len(seconds) > 1 else slice(None)
    return {
        "accuracy": round(float(np.mean(right)), 4),
        "seconds": round(float(np.mean(seconds[compiled])) / batch, 5),
        "megabytes": round(max(peaks[compiled]) / 1e6, 1),
    }


def _with_memory(model: Any, told: Iterator[Story], max_share: float) -> Row:
    """Writes each story into a memory, then asks: all its facts, and those of a hash.

    The seconds are those of writing, indexing and the answer with the hash.
    """
    right, hashed, facts, scored = [], [], [], []
    spent: list[float] = []
    answering: list[float] = []
    megabytes = 0
    for story in told:
        first = reset_peak()
        question = story.question[None].astype("int64")
        start = time.process_time()
        index = WordHash(story.sentences, max_share)
        memory = model.remember(story.sentences, index)
        written = time.process_time()
        answers = memory.answer(question)
        spent.append(time.process_time() - start)
        answering.append(time.process_time() - written)
        megabytes = max(megabytes, read_peak() - first) if len(spent) > 1 else 0
        hashed.append(answers.words[0] == story.answer)
        scored.append(int(answers.scored[0]))
        memory.index = None
        answers = memory.answer(question)
        right.append(answers.words[0] == story.answer)
        facts.append(np.array_equal(answers.facts[0], story.supports))
    return {
        "accuracy": round(float(np.mean(right)), 4),
        "accuracy_hash": round(float(np.mean(hashed)), 4),
        "facts": round(float(np.mean(facts)), 4),
        "scored_hash": round(float(np.mean(scored)), 1),
        "seconds": round(float(np.mean(spent[1:])), 5),
        "seconds_answer": round(float(np.mean(answering[1:])), 5),
        "megabytes": round(megabytes / 1e6, 1),
    }


def reset_peak() -> int:
    """Returns free memory to Linux and resets the peak; returns what is resident."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return read_peak()


def read_peak() -> int:
    """Returns the peak of resident memory since `reset_peak`, in bytes."""
    try:
        lines = pathlib.Path("/proc/self/status").read_text("ascii").splitlines()
    except OSError:
        return 0
    (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return 1024 * int(peak)
