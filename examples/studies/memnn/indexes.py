"""Vector indexes and the word hash on the keys of a large memory, one thread.

The world and the network are those of `hashing`. The queries are those of both hops of
questions about 100 objects. A query counts as found (recall@1) if one of the
candidates has the largest inner product of all facts. Many facts consist of the same
words and have equal keys; each fact with the largest product counts, within a relative
1e-5 for the rounding of float32.
"""

from __future__ import annotations

import functools
import os
import pickle
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np

from keras_attention.models import CandidateIndex, LargeMemory, VectorIndex, WordHash
from keras_attention.models.base import vector_index
from studies.memnn import hashing

# Arguments of each `VectorIndex`; the word hash has none.
KINDS: dict[str, dict[str, Any]] = {
    "words": {},
    "flat": {},
    "ivf": {"probes": 8},
    "hnsw": {"neighbors": 16, "ef_construction": 40, "ef_search": 128},
    "pq": {"code_size": 32},
    "ivf-pq": {"code_size": 32, "probes": 8},
}
COUNT = 100  # candidates in the measurement of recall and time
# Candidates in the measurement of answers: above the number of facts about one name,
# of which the network prefers the newest.
ANSWERS = 2_500
TIMED = 100  # queries
PROBES = (1, 4, 16, 64)  # of IVF, besides the number in `KINDS`
ROUNDING = 1e-5
QUESTIONS = 100
# Settings that determine a result, except the seed, the kind and the number of facts.
SETTINGS = {
    **hashing.SETTINGS,
    **{
        "questions": QUESTIONS,
        "count": COUNT,
        "answers_count": ANSWERS,
        "indexes": KINDS,
    },
}


class Recorder:
    """An index that selects all facts and stores what it was asked.

    Args:
        size: the number of facts.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked: list[tuple[np.ndarray, np.ndarray]] = []

    def candidates(self, words: np.ndarray, query: Any = None) -> None:
        """Stores the words and the query."""
        self.asked.append((words, query))


class Setting(NamedTuple):
    """What all indexes of one seed and size are measured on."""

    memory: LargeMemory
    facts: np.ndarray
    questions: np.ndarray
    right: np.ndarray  # the right answers
    words: np.ndarray  # the answers without an index
    asked: list[tuple[np.ndarray, np.ndarray]]  # words and query of each hop
    keys: np.ndarray
    best: np.ndarray  # the largest inner product of each query
    flat: VectorIndex


@functools.cache
def setting(seed: int, size: int) -> Setting:
    """Trains the network, and answers all questions without an index."""
    start = time.perf_counter()
    model = hashing.trained(seed)
    print(f"indexes: trained in {time.perf_counter() - start:.0f} s", flush=True)
    rng = np.random.default_rng([seed, 1])
    people = np.arange(hashing.FIRST_PERSON, hashing.FIRST_PERSON + hashing.PEOPLE)
    objects = np.arange(hashing.FIRST_OBJECT, hashing.FIRST_OBJECT + hashing.OBJECTS)
    story = hashing.world(rng, size, people, objects)
    number = min(QUESTIONS, len(story.objects))
    some = rng.choice(len(story.objects), number, replace=False)
    questions = hashing.asked(story.objects[some])
    recorder = Recorder(size)
    memory = model.remember(story.facts, recorder)
    words = memory.answer(questions).words
    queries = np.stack([query for _, query in recorder.asked], axis=1)  # (D, Q)
    keys = memory.keys(0, size)
    best = np.full(queries.shape[1], -np.inf)
    for first in range(0, size, 2**16):
        best = np.maximum(best, (keys[first : first + 2**16] @ queries).max(0))
    vector_index.faiss().omp_set_num_threads(1)
    return Setting(
        *(memory, story.facts, questions, story.facts[story.went[some], -1], words),
        *(recorder.asked, keys, best, VectorIndex(keys, count=COUNT)),
    )


def measured(kind: str, seed: int, size: int) -> dict[str, Any]:
    """Builds an index and measures its recall, time, size and answers."""
    given = setting(seed, size)
    start = time.perf_counter()
    index: CandidateIndex = (
        WordHash(given.facts)
        if kind == "words"
        else VectorIndex(given.keys, kind, count=COUNT, seed=seed, **KINDS[kind])
    )
    row: dict[str, Any] = {"kind": kind, "seed": seed, "facts": size}
    row["build_seconds"] = round(time.perf_counter() - start, 1)
    row["megabytes"] = round(bytes_of(index) / 1e6, 1)
    row |= recall(index, given)
    row |= times(index, given)
    if isinstance(index, VectorIndex):
        if kind == "ivf":
            row["probes"] = by_probes(index, given)
        index.count = ANSWERS
    memory = given.memory
    memory.index = index
    row["answers"] = hashing.ask(memory, given.questions, given.right, given.words)
    del row["answers"]["words"]
    memory.index = None
    return row


def by_probes(index: VectorIndex, given: Setting) -> list[dict[str, Any]]:
    """Measures recall and time with other numbers of probed cells."""
    before, rows = index.probes, []
    for index.probes in PROBES:
        row = {"probes": index.probes, **recall(index, given), **times(index, given)}
        rows.append(row)
        print(
            f"ivf, {row['probes']} probes: recall@1 {row['recall_of_hops']}  "
            f"{row['milliseconds']:.3f} ms",
            flush=True,
        )
    index.probes = before
    return rows


def recall(index: CandidateIndex, given: Setting) -> dict[str, Any]:
    """Computes recall@1 in each hop, and the mean number of candidates."""
    hits, counts = [], []
    for (words, query), best in zip(given.asked, given.best):
        found = index.candidates(words, query)
        slots = np.arange(index.size) if found is None else found
        counts.append(len(slots))
        score = (given.keys[slots] @ query).max(initial=-np.inf)
        hits.append(score >= best - ROUNDING * abs(best))
    half = len(hits) // 2  # each hop asks for all questions
    return {
        "queries": len(hits),
        "recall": round(float(np.mean(hits)), 4),
        "recall_of_hops": [
            round(float(np.mean(part)), 4) for part in (hits[:half], hits[half:])
        ],
        "candidates": round(float(np.mean(counts)), 1),
    }


def times(index: CandidateIndex, given: Setting) -> dict[str, Any]:
    """Measures the median time of a query; the flat index takes turns with it."""
    every = given.asked[:: max(len(given.asked) // TIMED, 1)]
    own: list[float] = []
    flat: list[float] = []
    for words, query in every:
        for taken, one in ((own, index), (flat, given.flat)):
            start = time.perf_counter()
            one.candidates(words, query)
            taken.append(time.perf_counter() - start)
    return {
        "milliseconds": round(1e3 * float(np.median(own)), 4),
        "p99_milliseconds": round(1e3 * float(np.quantile(own, 0.99)), 4),
        "flat_milliseconds": round(1e3 * float(np.median(flat)), 4),
        "times_flat": round(float(np.median(flat) / np.median(own)), 1),
    }


def bytes_of(index: CandidateIndex) -> int:
    """Returns the size of the saved index, which is nearly that in memory."""
    if not isinstance(index, VectorIndex):
        return len(pickle.dumps(index))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "index")
        index.save(path)
        return os.path.getsize(path)


def line(row: dict[str, Any]) -> str:
    """Formats the result of one index as a line of text."""
    answers = row["answers"]
    return (
        f"index {row['kind']:7s} recall@1 {row['recall']:.3f} of "
        f"{row['candidates']:6.0f} candidates  {row['milliseconds']:8.3f} ms a query "
        f"({row['times_flat']:.1f} times flat's speed)  {row['megabytes']:6.1f} MB  "
        f"built in {row['build_seconds']:.1f} s; scored {answers['scored']:.0f} facts "
        f"a question: same answer {answers['same']:.1f} %  right "
        f"{answers['right']:.1f} %  {answers['milliseconds']:.1f} ms"
    )
