"""Steps of the benchmark of a memory of millions of facts, each in its own process.

    train   trains the network
    build   generates the world and writes its memory to the disk
    ask     opens the memory and answers questions
    compare answers some of the questions from the scores of all facts

A step writes its results to a file in the folder. A step whose file is there already is
not repeated.
"""

from __future__ import annotations

import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_attention.models import LargeMemory
from studies.command_line import environment
from studies.memnn import large_training as training
from studies.memnn import large_world

QUESTIONS, SCORED_ALL = 1000, 200
MAX_SHARE, BUDGET = 0.35, 20_000
SETTINGS: dict[str, Any] = {
    **training.SETTINGS,
    **{"questions": QUESTIONS, "scored_all": SCORED_ALL},
    **{"max_share": MAX_SHARE, "budget": BUDGET},
}
Row = dict[str, Any]


def large(seed: int, size: int, folder: pathlib.Path | None) -> Row:
    """Runs the missing steps for a memory of `size` facts, and prints the results.

    Args:
        seed: the seed of the network, the world and the questions.
        size: the number of facts.
        folder: where results, the network and the memory are; None for a temporary
            folder.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return large(seed, size, pathlib.Path(temporary))
    folder.mkdir(parents=True, exist_ok=True)
    row: Row = {"seed": seed, "facts": size}
    is_new = False  # then the later steps are repeated
    for step in STEPS:
        settings = {
            "seed": seed,
            "backend": keras.config.backend(),
            **training.SETTINGS,
        }
        if step != "train":
            settings |= {"facts": size, "questions": QUESTIONS}
        if step in ("ask", "compare"):
            settings |= {"max_share": MAX_SHARE, "budget": BUDGET}
        if step == "compare":
            settings["scored_all"] = SCORED_ALL
        settings = json.loads(json.dumps(settings))
        file = folder / f"{step}.json"
        found = json.loads(file.read_text("utf-8")) if file.exists() else {}
        if is_new or found.get("settings") != settings:
            is_new = True
            command = [sys.executable, "-m", __name__, step, str(folder)]
            subprocess.run(
                [*command, str(seed), str(size)], check=True, env=environment()
            )
            found = {
                "settings": settings,
                "result": json.loads((folder / f"{step}.new").read_text("utf-8")),
            }
            file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        for name, value in found["result"].items():
            print(f"large {step}: {name} {value}", flush=True)
        row[step] = found["result"]
    return row


def train(folder: pathlib.Path, seed: int, size: int) -> Row:
    """Trains the network."""
    start = time.perf_counter()
    training.trained(seed).save(folder / "model.keras")
    return {"seconds": round(time.perf_counter() - start, 1)}


def build(folder: pathlib.Path, seed: int, size: int) -> Row:
    """Generates the world, writes its memory, and draws the questions."""
    before = peak()
    start, processor = time.perf_counter(), time.process_time()
    model = keras.saving.load_model(folder / "model.keras")
    world = large_world.World(size, seed)
    spent = [0.0]
    memory = LargeMemory.build(
        folder / "memory",
        model,
        timed(iter(world), spent),
        verbose=2,
    )
    seconds, most = time.perf_counter() - start, peak() - before
    processor = time.process_time() - processor
    sampled: dict[str, Any] = questions(world, seed)
    np.savez(folder / "questions.npz", **sampled)
    files = [p.stat().st_size for p in (folder / "memory").iterdir()]
    return {
        "facts": memory.size,
        "names": world.mentioned(),
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "seconds_of_the_generator": round(spent[0], 1),
        "peak_megabytes": round(most / 1e6),
        "bytes_a_fact": round(sum(files) / size, 1),
    }


def timed(blocks: Iterator[np.ndarray], spent: list[float]) -> Iterator[np.ndarray]:
    """Passes the blocks on, and adds up the time that they take to be made."""
    while True:
        start = time.perf_counter()
        block = next(blocks, None)
        spent[0] += time.perf_counter() - start
        if block is None:
            return
        yield block


def questions(world: large_world.World, seed: int) -> dict[str, np.ndarray]:
    """Draws questions; half by the frequency of names, half evenly from all names."""
    rng = np.random.default_rng([seed, 2])
    known = world.known()
    table = large_world.zipf(len(world.objects))
    often = large_world.sampled(rng, table, 4 * QUESTIONS)
    often = often[np.isin(often, known)][: QUESTIONS // 2]
    evenly = rng.choice(known, QUESTIONS - len(often))
    asked = np.stack([often, evenly], axis=1).ravel()
    carrier = world.carrier[asked]
    return {
        "questions": large_world.asked(world.objects[asked]),
        "rooms": world.room[carrier],
        "facts": np.stack([world.took[asked], world.went[carrier]], axis=1),
    }


def ask(folder: pathlib.Path, seed: int, size: int) -> Row:
    """Opens the memory and asks, with the index."""
    before = peak()
    model = keras.saving.load_model(folder / "model.keras")
    start = time.perf_counter()
    LargeMemory.load(folder / "memory", model, verify=False)
    mapped = time.perf_counter()
    memory = LargeMemory.load(folder / "memory", model)
    opened = time.perf_counter()
    index: Any = memory.index
    # The files of the index do not depend on these two.
    index.max_share, index.budget = MAX_SHARE, BUDGET
    given = np.load(folder / "questions.npz")
    answers, milliseconds = asked_one_by_one(memory, given["questions"])
    most = peak() - before
    is_right = answers["words"] == given["rooms"]
    row = {
        "open_seconds": round(opened - mapped, 2),
        "open_seconds_unverified": round(mapped - start, 3),
        **quantiles(milliseconds),
        "peak_megabytes": round(most / 1e6),
        "scored": round(float(answers["scored"].mean())),
        "right": percent(is_right),
        "right_by_frequency": percent(is_right[::2]),
        "right_evenly": percent(is_right[1::2]),
        "facts_right": percent((answers["facts"] == given["facts"]).all(1)),
    }
    saved: dict[str, Any] = answers
    np.savez(folder / "answers.npz", **saved)
    return row


def compare(folder: pathlib.Path, seed: int, size: int) -> Row:
    """Asks some of the questions without the index, so that all facts are scored."""
    model = keras.saving.load_model(folder / "model.keras")
    memory = LargeMemory.load(folder / "memory", model, verify=False)
    memory.index = None
    given = np.load(folder / "questions.npz")
    expected = np.load(folder / "answers.npz")
    every, milliseconds = asked_one_by_one(memory, given["questions"][:SCORED_ALL])
    row: Row = {"right": percent(every["words"] == given["rooms"][:SCORED_ALL])}
    for name in ("words", "facts"):
        same = every[name] == expected[name][:SCORED_ALL]
        row[f"same_{name}"] = percent(same.reshape(len(same), -1).all(1))
    return row | quantiles(milliseconds)


def asked_one_by_one(
    memory: LargeMemory, asked: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Answers the questions one by one.

    Returns:
        The answers, and for each question (B, 2) the milliseconds on the clock and of
        the processor. The latter do not grow if other processes are running.
    """
    memory.answer(asked[:1])  # compiles
    found, times = [], []
    for question in asked:
        start = np.array([time.perf_counter(), time.process_time()])
        found.append(memory.answer(question[None]))
        end = np.array([time.perf_counter(), time.process_time()])
        times.append(1000 * (end - start))
    names = ("words", "facts", "scored")
    arrays = {n: np.concatenate([getattr(a, n) for a in found]) for n in names}
    return arrays, np.array(times)


def quantiles(milliseconds: np.ndarray) -> Row:
    """Returns the median and the 99th percentile, on the clock and of the processor."""
    row = {}
    for name, column in zip(("milliseconds", "processor_milliseconds"), milliseconds.T):
        row[f"median_{name}"] = round(float(np.median(column)), 2)
        row[f"percentile_99_{name}"] = round(float(np.percentile(column, 99)), 2)
    return row


def percent(is_right: np.ndarray) -> float:
    """Returns a share in per cent."""
    return round(100 * float(is_right.mean()), 1)


def peak() -> int:
    """Returns the largest resident memory of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


STEPS = {"train": train, "build": build, "ask": ask, "compare": compare}

if __name__ == "__main__":
    step, where, *numbers = sys.argv[1:]
    result = STEPS[step](pathlib.Path(where), *map(int, numbers))
    new = pathlib.Path(where) / f"{step}.new"
    new.write_text(json.dumps(result), encoding="utf-8")
