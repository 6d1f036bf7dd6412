"""bAbI, all 20 tasks at once: our test error beside the paper's, task by task.

    python -m keras_attention.benchmarks babi --seeds 0 1 2 --json results.json

One MemN2N is trained on the 1,000 training questions of each of the 20 tasks together,
a tenth of them held back, and tested on the 1,000 test questions of each.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import time
import warnings
from typing import Any

import keras
import numpy as np

from keras_attention import callbacks, models
from keras_attention.benchmarks.errors import UsageError
from keras_attention.datasets import DataNotFoundError, babi
from keras_attention.version import __version__

# Sukhbaatar et al. (2015), table 1: 3 hops, position encoding, linear start, random
# noise, joint training; the best of ten runs. Test error in per cent, tasks 1 … 20.
PAPER = (
    *(0.0, 11.4, 21.9, 13.4, 14.4, 2.8, 18.3, 9.3, 1.9, 6.5),
    *(0.3, 0.1, 0.2, 6.9, 0.0, 2.7, 40.4, 9.4, 88.0, 0.0),
)

RECIPE: dict[str, Any] = {
    "embedding_dim": 50,
    "hops": 3,
    "memory_size": 50,
    "tying": "adjacent",
    "encoding": "position",
    "normalizer": "softmax1",
    "time_noise": 0.1,
    "linear_start": True,
}
TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "linear_epochs": 22,
    "epochs": 75,
    "batch_size": 32,
    "rate": 0.003,
    "halve_every": 12,
    "clipnorm": 40.0,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `babi`."""
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--json", type=pathlib.Path, help="where to write the results")
    parser.add_argument("--epochs", type=int, default=TRAINING["epochs"])


def main(args: argparse.Namespace) -> int:
    """Runs each seed, prints the table and writes the results."""
    training = {**TRAINING, "epochs": args.epochs}
    try:
        data = load()
    except DataNotFoundError as error:
        raise UsageError(str(error)) from error
    runs = []
    for seed in args.seeds:
        runs.append(run(seed, data, training))
        print(summary(runs[-1]), flush=True)
    print(table(runs))
    if args.json:
        args.json.write_text(json.dumps(report(runs, training), indent=1) + "\n")
    return 0


def load() -> dict[str, Any]:
    """The questions of all tasks as arrays, and the vocabulary's size."""
    train, test = babi.load("all", "train"), babi.load("all", "test")
    vocabulary = babi.Vocabulary.from_examples(train + test)
    with warnings.catch_warnings():
        # Stories of more than 50 sentences are cut, as in the paper.
        warnings.simplefilter("ignore", UserWarning)
        size = RECIPE["memory_size"]
        train_vectors = babi.vectorize(train, vocabulary, size)
        test_vectors = babi.vectorize(test, vocabulary, size)
    return {
        "train": train_vectors,
        "test": test_vectors,
        "tasks": np.array([example.task for example in test]),
        "vocabulary_size": len(vocabulary),
    }


def run(seed: int, data: dict[str, Any], training: dict[str, Any]) -> dict[str, Any]:
    """Trains one network and returns its test errors in per cent."""
    keras.utils.set_random_seed(seed)
    inputs, answers = data["train"].inputs, data["train"].answers
    order = np.random.default_rng(seed).permutation(len(answers))
    held, used = np.split(order, [len(order) // 10])
    model = models.MemN2N(data["vocabulary_size"], **RECIPE)
    model.compile(
        keras.optimizers.Adam(training["rate"], clipnorm=training["clipnorm"]),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"),
        metrics=["accuracy"],
    )
    linear = training["linear_epochs"]
    start = time.perf_counter()
    history = model.fit(
        {name: array[used] for name, array in inputs.items()},
        answers[used],
        batch_size=training["batch_size"],
        epochs=training["epochs"],
        validation_data=(
            {name: array[held] for name, array in inputs.items()},
            answers[held],
        ),
        verbose=0,
        callbacks=[
            callbacks.LinearStart(epochs=linear),
            callbacks.HalveLearningRate(training["halve_every"], start=linear),
            keras.callbacks.LambdaCallback(on_epoch_end=_progress),
        ],
    ).history
    seconds = time.perf_counter() - start
    logits = model.predict(data["test"].inputs, batch_size=500, verbose=0)
    wrong = logits.argmax(-1) != data["test"].answers
    errors = [100 * float(wrong[data["tasks"] == task].mean()) for task in babi.TASKS]
    return {
        "seed": seed,
        "errors": [round(error, 2) for error in errors],
        "mean": round(float(np.mean(errors)), 2),
        "failed": sum(error > 5 for error in errors),
        "train_error": round(100 * (1 - history["accuracy"][-1]), 2),
        "validation_error": round(100 * (1 - history["val_accuracy"][-1]), 2),
        "fit_seconds": round(seconds, 1),
    }


def summary(result: dict[str, Any]) -> str:
    """One line about a run."""
    return (
        f"seed {result['seed']}: mean test error {result['mean']:.2f} %, "
        f"{result['failed']} tasks failed, fit took {result['fit_seconds']:.0f} s"
    )


def table(runs: list[dict[str, Any]]) -> str:
    """Our errors beside the paper's, a row a task."""
    seeds = "".join(f"  seed {r['seed']:<2d}" for r in runs)
    lines = [f"{'test error in %':30s}{seeds}    mean   paper"]
    errors = np.array([r["errors"] for r in runs])  # (runs, 20)
    for i, (task, name) in enumerate(babi.TASKS.items()):
        ours = "".join(f"{error:9.1f}" for error in errors[:, i])
        mean, paper = errors[:, i].mean(), PAPER[i]
        lines.append(f"{task:2d} {name:27s}{ours}{mean:8.1f}{paper:8.1f}")
    means = "".join(f"{r['mean']:9.2f}" for r in runs)
    best = float(np.mean(PAPER))
    lines.append(f"{'mean':30s}{means}{errors.mean():8.2f}{best:8.2f}")
    failed = "".join(f"{r['failed']:9d}" for r in runs)
    count = sum(error > 5 for error in PAPER)
    lines.append(f"{'failed (error above 5 %)':30s}{failed}{'':8s}{count:8d}")
    return "\n".join(lines)


def report(runs: list[dict[str, Any]], training: dict[str, Any]) -> dict[str, Any]:
    """What the JSON file holds."""
    return {
        "what": "bAbI v1-2, 20 tasks jointly, 1,000 training questions each",
        "model": {"class": "MemN2N", **RECIPE},
        "training": training,
        "runs": runs,
        "mean": round(float(np.mean([r["mean"] for r in runs])), 2),
        "paper": {"errors": PAPER, "mean": round(float(np.mean(PAPER)), 2)},
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


def _progress(epoch: int, logs: dict[str, float]) -> None:
    print(
        f"\repoch {epoch + 1:3d}  training error {100 - 100 * logs['accuracy']:5.1f} %"
        f"  validation error {100 - 100 * logs['val_accuracy']:5.1f} %",
        end="\n" if (epoch + 1) % 15 == 0 else "",
        flush=True,
    )
