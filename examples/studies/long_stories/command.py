"""Compares memories on bAbI facts among long distractors, at equal weights and time.

    python examples/studies/long_stories --json long-stories.json
    python examples/studies/long_stories --models memnn memn2n --tasks 1 --seeds 0 1 2

Each run trains one network on short stories, with `--minutes` of CPU time, and tests
it on stories of up to 10⁶ tokens. After each run, all runs are written to the file
given by `--json`. Repeat the command to resume from this file; at most the current run
is lost. The distractors are sentences of Tatoeba; `--text made` needs no data.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from typing import Any

import keras

from keras_attention.datasets import DataNotFoundError, babi
from studies import command_line, reports
from studies.command_line import UsageError
from studies.long_stories import report
from studies.long_stories.models import FAMILIES, WEIGHTS, Task, sized
from studies.long_stories.stories import TASKS, TEXTS, Stories, Text, vocabulary_of
from studies.long_stories.testing import FIRST_TEST, TESTS, tested
from studies.long_stories.training import TRAINING, trained
from studies.store import Run, Store, opened

NEEDED = ("model", "task", "seed", "backend", "keras", "settings", "result")
SEEDS, MINUTES = (0, 1, 2), 3.0
FIRST_TRAINING = 1  # first number of a seed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `long_stories`."""
    add = parser.add_argument
    add("--models", nargs="+", choices=[*FAMILIES], default=[*FAMILIES])
    add("--tasks", type=int, nargs="+", choices=TASKS, default=list(TASKS))
    add("--text", choices=[*TEXTS], default="tatoeba", help="of the distractors")
    add("--minutes", type=float, default=MINUTES, help="of CPU time to train a run")
    add("--longest", type=int, default=10**6, help="tokens of a test")
    command_line.add_runs(parser, SEEDS, page=True)


def main(args: argparse.Namespace) -> int:
    """Performs the missing runs, prints them and writes the results."""
    command_line.above_zero(args, "minutes")
    command_line.at_least_one(args, "longest")
    store = opened(args.out, NEEDED)
    if args.json and args.json.exists():
        for run in json.loads(args.json.read_text("utf-8"))["runs"]:
            if not store.find(**{name: run[name] for name in NEEDED[:4]}):
                store.add(run)
    settings = {
        **TRAINING,
        "minutes": args.minutes,
        "weights": WEIGHTS,
        "text": args.text,
        "tests": up_to(args.longest),
    }
    data = None
    for seed in dict.fromkeys(args.seeds):
        for number in dict.fromkeys(args.tasks):
            for name in dict.fromkeys(args.models):
                one = {"model": name, "task": number, "seed": seed}
                one["backend"] = keras.config.backend()
                run = store.done(f"{name}, task {number}", settings, **one)
                if run is None:
                    data = data or Data(args.text)
                    run = perform(store, one, data, settings)
                results = {"benchmark": "long stories", "runs": store.runs}
                tables = report.tables({"long-stories": results})
                command_line.write(args, results, tables)
                print(report.line(run), flush=True)
    return 0


def up_to(longest: int) -> dict[str, Any]:
    """Returns the settings of the tests of lengths up to `longest`."""
    lengths = [length for length in TESTS["lengths"] if length <= longest]
    return {**TESTS, "lengths": lengths, "stories": TESTS["stories"][: len(lengths)]}


@functools.cache
def size_of(name: str, task: Task) -> tuple[int, int]:
    """Returns the size and the number of weights of a network."""
    return sized(FAMILIES[name], task)


class Data:
    """The vocabulary and the two parts of a text.

    Raises:
        UsageError: the text cannot be found.
    """

    def __init__(self, name: str) -> None:
        try:
            train, test = TEXTS[name]()
        except DataNotFoundError as error:
            raise UsageError(f"{error} Or try --text made.") from error
        self.vocabulary = vocabulary_of(train)
        self.train, self.test = (Text(part, self.vocabulary) for part in (train, test))

    def stories(self, task: int, is_test: bool) -> Stories:
        """Returns the questions of a task, for training or for the test."""
        text, first = self.train, FIRST_TRAINING
        if is_test:
            text, first = self.test, FIRST_TEST
        count = (TESTS if is_test else TRAINING)["questions"]
        return Stories(task, text, self.vocabulary, count, [first, task])


def perform(store: Store, one: Run, data: Data, settings: dict[str, Any]) -> Run:
    """Trains and tests one network, and adds it to the store."""
    family = FAMILIES[one["model"]]
    stories = data.stories(one["task"], is_test=False)
    supports = len(stories.told[0].supports)
    task = Task(one["task"], len(data.vocabulary), supports)
    size, weights = size_of(one["model"], task)
    keras.utils.set_random_seed(one["seed"])
    vocabulary: babi.Vocabulary = data.vocabulary
    model = family.build(task, size)
    fit = trained(model, family, stories, vocabulary, settings, one["seed"])
    start = time.process_time()
    rows = tested(
        model,
        family,
        data.stories(one["task"], is_test=True),
        vocabulary,
        settings["tests"],
    )
    result = {
        "size": size,
        "weights": weights,
        **fit,
        "test_cpu_seconds": round(time.process_time() - start, 1),
        "tests": rows,
    }
    environment = reports.environment()
    run = {**one, "keras": environment["keras"], "environment": environment}
    return store.add({**run, "settings": settings, "result": result})
