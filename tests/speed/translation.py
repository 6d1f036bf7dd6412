"""The command `translation`: training steps of our Transformer and of torch's.

Both start from the same weights and train on the same batches of Multi30k, on the torch
backend: `KERAS_BACKEND=torch python tests/speed translation`. The command needs the
extra `text` (subwords).
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
from functools import partial
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import DataNotFoundError
from speed import harness
from studies import reports
from studies.command_line import UsageError, at_least_one
from studies.translation import torch_peer, training, transformer

PAIRS = 15  # pairs of timings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options to an `argparse` parser."""
    add = parser.add_argument
    add("--source", choices=("en", "de"), default="en", help="what is translated")
    add("--pairs", type=int, help="to train on; default: all")
    add("--seed", type=int, default=0)
    add("--json", type=pathlib.Path, help="where to write the results")


def main(args: argparse.Namespace) -> int:
    """Measures the times and prints them."""
    at_least_one(args, "pairs")
    if keras.config.backend() != "torch":
        raise UsageError(
            "`translation` compares on the torch backend. Next: KERAS_BACKEND=torch"
        )
    languages = (args.source, {"en": "de", "de": "en"}[args.source])
    settings = {**transformer.MODEL, **transformer.TRAINING, "source": "forward"}
    settings["languages"] = languages
    try:
        data = training.data(languages, settings["subwords"], args.pairs)
    except DataNotFoundError as error:
        raise UsageError(str(error)) from error
    found = step_times(data, args.seed, settings)
    if args.json:
        about = {**reports.head("translation"), "keras": keras.__version__}
        report = {**about, "settings": settings, "step_times": found}
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{'peer, batch':24}{'ours':>10}{'torch.nn':>10}{'ratio':>8}  verdict")
    for name, row in found.items():
        if isinstance(row, dict):
            print(
                f"{name:24}{row['ours_cpu_seconds'] * 1e3:7.1f} ms"
                f"{row['torch_cpu_seconds'] * 1e3:7.1f} ms"
                f"{row['times_as_fast']['median']:8.3f}  {row['verdict']}"
            )
    return 0


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the table of docs/results/translation.md."""
    rows = []
    for name, row in raw["translation"]["step_times"].items():
        if isinstance(row, dict):
            peer, width = name.split(", width ")
            ratio, null = row["times_as_fast"], row["null"]
            cell = f"{ratio['median']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"
            noise = f"{null['p5']:.2f}–{null['p95']:.2f}"
            ours = f"{1e3 * row['ours_cpu_seconds']:.0f} ms"
            rows.append([width, peer, ours, cell, noise])
    titles = ["subwords", "torch's dropout", "ours", "ratio (95 %)", "null band"]
    return {"steps": reports.table(titles, rows)}


def step_times(data: training.Data, seed: int, settings: dict[str, Any]) -> dict:
    """Measures the times of training steps of ours and torch's, on the torch backend.

    The two are timed in turn. Times are CPU seconds of the process, which are little
    affected by other processes.

    Returns:
        For each width of a batch and each peer, the median times in seconds and our
        speedup (its median and 95 % interval). The same figures follow for ours against
        itself. The peer "as it comes" also applies dropout to attention weights and
        inside the MLP.
    """
    import torch

    model = transformer.new(data, seed, settings)
    batches = training.batches(data, "train", settings, seed)
    steps = settings["epochs"] * len(batches)
    transformer.compile_with(model, settings, steps)
    found: dict[str, Any] = {"threads": torch.get_num_threads()}
    for peer, everywhere in (("same dropout", False), ("as it comes", True)):
        module = torch_peer.make(model, settings["dropout"], everywhere).train()
        optimizer, _ = transformer.torch_optimizer(module, settings, steps)
        for width in training.WIDTHS:
            inputs, labels = _one_of(transformer.Batches(batches.buckets), width)
            smooth = settings["label_smoothing"]
            ours = partial(model.train_on_batch, inputs, labels)
            theirs = partial(torch_peer.step, module, optimizer, inputs, labels, smooth)
            found[f"{peer}, width {width}"] = _compared(ours, theirs)
    return found


def _compared(ours: Any, theirs: Any) -> dict[str, Any]:
    """Measures CPU seconds of two functions in alternation, and of ours alone."""
    for _ in range(harness.WARM_UPS):
        ours(), theirs()
    seconds = harness.time_pairs(ours, theirs, PAIRS, clock=time.process_time)
    null = harness.time_pairs(ours, ours, PAIRS, clock=time.process_time)
    ratio, noise = (
        harness.spread(harness.pair_ratios(each)) for each in (seconds, null)
    )
    return {
        "ours_cpu_seconds": float(np.median(seconds[:, 0])),
        "torch_cpu_seconds": float(np.median(seconds[:, 1])),
        "times_as_fast": ratio.to_json(),
        "null": noise.to_json(),
        "verdict": harness.verdict(ratio, noise),
    }


def _one_of(
    batches: transformer.Batches, width: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns the first batch whose targets have the given width."""
    every = (batches[i] for i in range(len(batches)))
    return next(batch for batch in every if batch[1].shape[1] == width)
