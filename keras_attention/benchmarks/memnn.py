"""MemNN: errors on bAbI and in the simulated world, and hashing of a large memory.

    python -m keras_attention.benchmarks memnn --json memnn.json
    python -m keras_attention.benchmarks memnn --parts babi --tasks 1 2 3 --seeds 0 1

One network for each task, trained on 1,000 questions with their supporting facts and
tested on 1,000 by the facts that it finds itself.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import time
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np

from keras_attention.benchmarks.babi import published
from keras_attention.benchmarks.errors import UsageError
from keras_attention.benchmarks.memnn_hashing import hashing
from keras_attention.datasets import DataNotFoundError, babi, simulated_world
from keras_attention.losses import SupportingFactLoss
from keras_attention.models import MemNN
from keras_attention.version import __version__

# Weston et al. (2015), MemNN with adaptive memory, n-grams and nonlinearity, strongly
# supervised. Test error in per cent, tasks 1 … 20.
PAPER = published.columns("1k")["MemNN_strong"]

PLAIN: dict[str, Any] = {
    "embedding_dim": 50,
    "time": True,
    "adaptive": True,
    "hop_versions": True,
}
RECIPES = {"plain": PLAIN, "rich": {**PLAIN, "ngrams": 3, "nonlinear": True}}
TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "rate": 0.01,
    "decay": "cosine",
    "batch_size": 32,
    "margin": 0.1,
}
WORLDS = [(d, kind) for d in (1, 5) for kind in ("actor", "actor+object")]
PARTS = ("babi", "world", "hashing")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `memnn`."""
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument(
        "--recipe",
        choices=[*RECIPES, "chosen"],
        default="chosen",
        help="on bAbI: bags of words and a linear score; n-grams and two layers; or "
        "that of the two with the lower error on a tenth of the training questions",
    )
    parser.add_argument("--tasks", type=int, nargs="+", default=list(babi.TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--facts", type=int, default=10**6, help="of the large memory")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the results")


def main(args: argparse.Namespace) -> int:
    """Runs each part with each seed, prints it and writes the results."""
    results: dict[str, Any] = {part: [] for part in args.parts}
    try:
        for part, row in rows_of(args):
            results[part].append(row)
            if args.json:  # after each row, so that nothing is lost
                text = json.dumps(report(results, args.epochs), indent=1)
                args.json.write_text(text + "\n")
    except DataNotFoundError as error:
        raise UsageError(str(error)) from error
    for seed in args.seeds if "babi" in args.parts else ():
        rows = [row for row in results["babi"] if row["seed"] == seed]
        print(f"seed {seed}: {mean_of(rows)}")
    return 0


def rows_of(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Runs all that is asked for, one result after another, each with its part."""
    for seed in args.seeds:
        if "hashing" in args.parts:
            yield "hashing", hashing(seed, args.facts)
        if "world" in args.parts:
            for world in WORLDS:
                yield "world", in_world(*world, seed, args.epochs)
        if "babi" in args.parts:
            for task in args.tasks:
                yield "babi", on_babi(task, seed, args.epochs, args.recipe)


def on_babi(task: int, seed: int, epochs: int, recipe: str) -> dict[str, Any]:
    """One task: trains a network and returns its errors in per cent.

    With the recipe "chosen", a tenth of the training questions is held back, and each
    recipe is tried; the row is that of the one with the lower error on them, the plain
    one where both are equal.
    """
    train, test = babi.load(task, "train"), babi.load(task, "test")
    about = {"task": task, "name": babi.TASKS[task], "paper": PAPER[task - 1]}
    if recipe == "chosen":
        order = np.random.default_rng(seed).permutation(len(train))
        held, used = np.split(order, [len(order) // 10])
        parts = [train[i] for i in used], test, [train[i] for i in held]
        tried = [
            {"recipe": name, **learn(*parts, seed, epochs, arguments)}
            for name, arguments in RECIPES.items()
        ]
        row = {**about, **min(tried, key=lambda row: row["validation_error"])}
    else:
        row = {
            **about,
            "recipe": recipe,
            **learn(train, test, [], seed, epochs, RECIPES[recipe]),
        }
    print(
        f"{task:2d} {row['name']:24s} {row['recipe']:5s} seed {seed}  "
        f"error {row['error']:5.1f} %  paper {row['paper']:3d} %  "
        f"facts wrong {row['facts_error']:5.1f} %  "
        f"training error {row['train_error']:5.1f} %  {row['fit_seconds']:5.0f} s",
        flush=True,
    )
    return row


def in_world(difficulty: int, kind: str, seed: int, epochs: int) -> dict[str, Any]:
    """The simulated world of Weston et al. (2014), 3,000 questions to learn from."""
    train, test = (
        simulated_world.simulate(count, difficulty, kind, seed=[seed, part])
        for part, count in enumerate((3000, 1000))
    )
    row = learn(train, test, [], seed, epochs, PLAIN)
    row = {"difficulty": difficulty, "questions": kind, **row}
    print(
        f"simulated world, difficulty {difficulty}, {kind:12s} seed {seed}  "
        f"right {100 - row['error']:6.2f} %  {row['fit_seconds']:5.0f} s",
        flush=True,
    )
    return row


def learn(
    train: Sequence[babi.Example],
    test: Sequence[babi.Example],
    held: Sequence[babi.Example],
    seed: int,
    epochs: int,
    recipe: dict[str, Any],
) -> dict[str, Any]:
    """Trains on some examples, tests on others, and returns the errors in per cent."""
    keras.utils.set_random_seed(seed)
    vocabulary = babi.Vocabulary.from_examples([*train, *test, *held])
    # The test may have stories with more supporting facts than any of the training.
    supports = max(len(example.supporting_facts) for example in train)
    x, y = arrays(train, vocabulary, supports)
    model = MemNN(len(vocabulary), supports=supports, **recipe)
    batches = Batches(x, y, TRAINING["batch_size"], seed)
    rate = keras.optimizers.schedules.CosineDecay(
        TRAINING["rate"], epochs * len(batches)
    )
    loss = SupportingFactLoss(TRAINING["margin"])
    model.compile(keras.optimizers.Adam(rate), {"facts": loss, "answer": loss})
    start = time.perf_counter()
    model.fit(batches, epochs=epochs, verbose=0)
    seconds = time.perf_counter() - start
    error, facts = errors(model, *arrays(test, vocabulary, supports))
    row: dict[str, Any] = {"seed": seed, "supports": supports}
    if held:
        validation, _ = errors(model, *arrays(held, vocabulary, supports))
        row["validation_error"] = round(validation, 2)
    return {
        **row,
        "error": round(error, 2),
        "facts_error": round(facts, 2),
        "train_error": round(errors(model, x, y)[0], 2),
        "fit_seconds": round(seconds, 1),
    }


def arrays(
    examples: Sequence[babi.Example], vocabulary: babi.Vocabulary, supports: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs and targets; of more supporting facts than `supports`, the first ones."""
    slots = max(len(example.story) for example in examples)
    vectors = babi.vectorize(examples, vocabulary, slots)
    facts = np.full((len(examples), supports), -1, "int32")
    for row, example in zip(facts, examples):
        known = example.supporting_facts[:supports]
        row[: len(known)] = known
    inputs = {**vectors.inputs, "supporting_facts": facts}
    return inputs, {"facts": facts, "answer": vectors.answers}


def errors(
    model: MemNN, x: dict[str, np.ndarray], y: dict[str, np.ndarray]
) -> tuple[float, float]:
    """How many answers are wrong, and for how many the facts found, in per cent."""
    given = {name: x[name] for name in ("story", "question")}
    found = model.predict(given, batch_size=250, verbose=0)
    answers = found["answer"].argmax(-1) != y["answer"]
    facts = (found["found"] != y["facts"]).any(-1)
    return 100 * float(answers.mean()), 100 * float(facts.mean())


class Batches(keras.utils.PyDataset):
    """Batches of stories about as long as each other, without needless empty slots."""

    def __init__(
        self,
        x: dict[str, np.ndarray],
        y: dict[str, np.ndarray],
        batch_size: int,
        seed: int,
    ) -> None:
        super().__init__()
        self.x, self.y, self.batch_size = x, y, batch_size
        self.rng = np.random.default_rng(seed)
        length = (x["story"] != 0).any(-1).sum(-1)  # (N,)
        # 16, 32, 64, …: few sizes, since a backend may compile for each of them.
        size = 2 ** np.ceil(np.log2(np.maximum(length, 16))).astype(int)
        self.sizes = np.minimum(size, x["story"].shape[1])
        self.on_epoch_end()

    def on_epoch_end(self) -> None:
        self.batches = []
        for size in np.unique(self.sizes):
            order = self.rng.permutation(np.flatnonzero(self.sizes == size))
            cuts = range(self.batch_size, len(order), self.batch_size)
            self.batches += [(size, rows) for rows in np.split(order, cuts)]
        self.rng.shuffle(self.batches)

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Any:
        size, rows = self.batches[index]
        x = {name: array[rows] for name, array in self.x.items()}
        x["story"] = x["story"][:, :size]
        return x, {name: array[rows] for name, array in self.y.items()}


def mean_of(rows: list[dict[str, Any]]) -> str:
    """One line about all tasks."""
    ours = np.mean([row["error"] for row in rows])
    paper = np.mean([row["paper"] for row in rows])
    failed = sum(row["error"] > 5 for row in rows)
    return (
        f"mean error of {len(rows)} tasks {ours:.2f} %, paper {paper:.2f} %; {failed} "
        "tasks above 5 %"
    )


def report(results: dict[str, Any], epochs: int) -> dict[str, Any]:
    """What the JSON file holds."""
    return {
        "what": "MemNN with supporting facts; bAbI v1-2, 1,000 questions a task",
        "model": {"class": "MemNN", "world": PLAIN, "babi": RECIPES},
        "training": {**TRAINING, "epochs": epochs},
        "paper": {"errors": PAPER, "mean": float(np.mean(PAPER))},
        **results,
        "versions": {
            "keras_attention": __version__,
            "keras": keras.__version__,
            "backend": keras.config.backend(),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "processors": os.cpu_count(),
        "date": datetime.date.today().isoformat(),
    }
