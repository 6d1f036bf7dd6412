"""A memory of real triples: MetaQA's knowledge base and FB15k-237 together.

Each subject, relation and object is a word. A question has a subject and a relation;
the answer is an object. The last 100,000 triples are appended to the memory of the
others.
"""

from __future__ import annotations

import io
import os
import pathlib
import tarfile
import tempfile
import time
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import DataNotFoundError, triples
from keras_attention.models import LargeMemory, MemNN
from studies.memnn.large import Row, asked_one_by_one, percent, quantiles
from studies.memnn.large_training import Names, fit, tables

QUESTIONS, APPENDED = 100, 100_000
# Trained subjects and objects; training stories, their facts, subjects and relations.
WORDS, STORIES, STORY, CAST = 200, 4000, 40, 12
EPOCHS, BATCH, RATE, MARGIN, WIDTH, PART, NORM = 4, 64, 0.003, 1.0, 128, 96, 1.5
MAX_SHARE = 0.01
SETTINGS: dict[str, Any] = {
    **{"questions": QUESTIONS, "appended": APPENDED, "trained_words": WORDS},
    **{"stories": STORIES, "story": STORY, "cast": CAST, "epochs": EPOCHS},
    **{"batch_size": BATCH, "rate": RATE, "margin": MARGIN, "embedding_dim": WIDTH},
    **{"part": PART, "norm": NORM, "max_share": MAX_SHARE},
}


def real(seed: int, folder: pathlib.Path | None) -> Row:
    """Builds the memory, asks, appends, and asks again; prints the results."""
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return real(seed, pathlib.Path(temporary))
    facts, relations, entities = encoded(load())
    model = trained(seed, relations, entities)
    first, last = facts[:-APPENDED], facts[-APPENDED:]
    rng = np.random.default_rng([seed, 1])
    before = sampled(rng, first, last, QUESTIONS)
    after = sampled(rng, last, first[:0], QUESTIONS)
    row: Row = {"facts": len(facts), "appended": APPENDED}
    row["words"] = model.vocabulary_size
    start = time.perf_counter()
    memory = LargeMemory.build(folder / "real", model, first, MAX_SHARE, verbose=0)
    row["build_seconds"] = round(time.perf_counter() - start, 2)
    answers, milliseconds = asked_one_by_one(memory, before)
    row |= quantiles(milliseconds)
    row["right"] = percent(is_right(answers["words"], before, first))
    start = time.perf_counter()
    memory.append(last)
    row["append_seconds"] = round(time.perf_counter() - start, 2)
    again, _ = asked_one_by_one(memory, before)
    row["same_after_append"] = percent((again["facts"] == answers["facts"]).all(1))
    start = time.perf_counter()
    opened = LargeMemory.load(folder / "real", model)
    row["open_seconds"] = round(time.perf_counter() - start, 2)
    new, _ = asked_one_by_one(opened, after)
    row["right_in_appended"] = percent(is_right(new["words"], after, facts))
    both = np.concatenate([before, after])
    whole = LargeMemory.build(folder / "whole", model, facts, MAX_SHARE, verbose=0)
    built, _ = asked_one_by_one(whole, both)
    joined = np.concatenate([again["facts"], new["facts"]])
    row["same_as_built_at_once"] = percent((built["facts"] == joined).all(1))
    for name, value in row.items():
        print(f"real: {name} {value}", flush=True)
    return {"seed": seed, **row}


def load() -> list[triples.Fact]:
    """Loads both knowledge bases: MetaQA's first, then FB15k-237's three files."""
    facts = triples.load_metaqa_facts()
    path = pathlib.Path(os.environ.get("KERAS_ATTENTION_DATA", ""), "kb")
    path /= "FB15k-237.tar.gz"
    if not path.is_file():
        raise DataNotFoundError(f"There is no file {path}.")
    with tarfile.open(path) as archive:
        for name in ("train.txt", "valid.txt", "test.txt"):
            file = archive.extractfile(name)
            if file is None:
                raise DataNotFoundError(f"There is no file {name} in {path}.")
            lines = io.TextIOWrapper(file, "utf-8")
            facts += triples.parse(lines, "\t", f"{path}, {name}")
    return facts


def encoded(facts: list[triples.Fact]) -> tuple[np.ndarray, int, int]:
    """Numbers relations, subjects and objects: int64 (N, 3), and how many there are.

    An entity has one word as a subject and another as an object.
    """
    relations = {name: n for n, name in enumerate(dict.fromkeys(f[1] for f in facts))}
    entities: dict[str, int] = {}
    for subject, _, value in facts:
        for name in (subject, value):
            entities.setdefault(name, len(entities))
    first = 1 + len(relations)
    words = [
        (first + entities[s], 1 + relations[r], first + len(entities) + entities[o])
        for s, r, o in facts
    ]
    return np.array(words), len(relations), len(entities)


def sampled(
    rng: np.random.Generator, facts: np.ndarray, others: np.ndarray, count: int
) -> np.ndarray:
    """Draws questions (B, 2) about `facts`, none of them about `others`."""
    pairs = np.unique(facts[:, :2], axis=0)
    key, other = (rows @ [2**32, 1] for rows in (pairs, others[:, :2]))
    pairs = pairs[~np.isin(key, other)]
    return pairs[rng.choice(len(pairs), count, replace=False)]


def is_right(words: np.ndarray, asked: np.ndarray, facts: np.ndarray) -> np.ndarray:
    """Tells whether each answer is an object of a fact with the words asked for."""
    known = {*map(tuple, facts.tolist())}
    rows = np.concatenate([asked, words[:, None]], axis=1)
    return np.array([tuple(row) in known for row in rows.tolist()])


def trained(seed: int, relations: int, entities: int) -> MemNN:
    """Trains a network on short stories with a few subjects and objects.

    All other subjects and objects get rows as in `large_training.Names`.
    """
    rng = np.random.default_rng(seed)
    keras.utils.set_random_seed(seed)
    vocabulary, first = 1 + relations + 2 * entities, 1 + relations
    codes = {name: np.zeros((vocabulary, WIDTH), "float32") for name in "OR"}
    subjects, objects = first + np.arange(2 * entities).reshape(2, -1)
    for name, words, place in (
        ("O", np.arange(1, first), slice(PART, None)),
        ("O", subjects, slice(PART)),
        ("R", objects, slice(None)),
    ):
        vectors = rng.normal(size=codes[name][words, place].shape)
        vectors /= np.linalg.norm(vectors, axis=1)[:, None]
        codes[name][words, place] = NORM * vectors
    seen = np.r_[np.arange(first), subjects[:WORDS], objects[:WORDS]]
    sizes: dict[str, Any] = {"embedding_dim": WIDTH, "supports": 1, "time": False}
    small = MemNN(len(seen), **sizes)
    for name in "OR":
        for table in tables(small, name):
            start = np.zeros(table.shape, "float32")
            start[: len(seen)] = codes[name][seen]
            table.assign(start)
    names = Names(
        codes,
        {"O": np.arange(WIDTH) >= PART, "R": np.ones(WIDTH, bool)},
        [subjects, objects],
        seen,
    )
    fit(small, *stories(rng, first), names, EPOCHS, BATCH, RATE, MARGIN)
    return names.extended(small, MemNN(vocabulary, **sizes))


def stories(rng: np.random.Generator, first: int) -> tuple[Any, Any]:
    """Generates stories of facts with different pairs of subject and relation."""
    story = np.zeros((STORIES, STORY, 3), "int32")
    for facts in story:
        who = rng.choice(WORDS, CAST, replace=False) + first
        what = rng.choice(first - 1, CAST, replace=False) + 1
        pairs = rng.choice(CAST**2, STORY, replace=False)
        facts[:, 0], facts[:, 1] = who[pairs // CAST], what[pairs % CAST]
    story[:, :, 2] = first + WORDS + rng.integers(WORDS, size=story.shape[:2])
    asked = rng.integers(STORY, size=STORIES)
    fact = story[np.arange(STORIES), asked]
    x = {"story": story, "question": fact[:, :2], "supporting_facts": asked[:, None]}
    return x, {"facts": asked[:, None], "answer": fact[:, 2]}
