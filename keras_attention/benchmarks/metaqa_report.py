"""Text lines, a table and the JSON report of MetaQA runs."""

from __future__ import annotations

import datetime
import pathlib
import platform
from typing import Any

import numpy as np

from keras_attention.benchmarks.store import Run
from keras_attention.version import __version__

RECIPE: dict[str, Any] = {"embedding_dim": 64, "encoding": "position"}
MEMORY_SIZE = {1: 64, 2: 128}
# Miller et al. (2016), table 2: test hits@1 in per cent with the knowledge base, after
# training on the questions of WikiMovies, about ten times as many as ours.
PUBLISHED = {"KV-MemNN": 93.9, "MemN2N": 78.5}


def model_of(hops: int) -> dict[str, Any]:
    """Returns the network's arguments, except those that depend on the data."""
    return {**RECIPE, "hops": hops, "memory_size": MEMORY_SIZE[hops]}


def facts_of(data: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Returns statistics of the memories of each split."""
    return {name: data[name].facts for name in ("dev", "test") if name in data}


def summary(result: dict[str, Any]) -> str:
    """Formats a run as a line of text."""
    return (
        f"seed {result['seed']}: hits@1 {result['network']:.2f} %, regression "
        f"{result['regression']:.2f} %, fit took {result['fit_seconds']:.0f} s"
    )


def table(
    runs: list[dict[str, Any]], hops: int, own: pathlib.Path | None = None
) -> str:
    """Formats the hits@1 of the network and the regression.

    Published results follow, unless the questions are those of the file `own`.
    """
    seeds = "".join(f"  seed {r['seed']:<2d}" for r in runs)
    split = "test" if hops == 1 else "held-back dev"
    split = split if own is None else own.name
    lines = [f"{f'hits@1 in %, {hops}-hop {split}':44s}{seeds}    mean"]

    def row(name: str, numbers: list[float]) -> None:
        each = "".join(f"{number:9.2f}" for number in numbers)
        lines.append(f"{name:44s}{each}{np.mean(numbers):8.2f}")

    row("KeyValueMemNN", [r["network"] for r in runs])
    row("regression on bigrams", [r["regression"] for r in runs])
    row("knowing the relations, and guessing", [r["ceiling"] for r in runs])
    row("KeyValueMemNN, right relations", [r["right_path"]["network"] for r in runs])
    row("regression, right relations", [r["right_path"]["regression"] for r in runs])
    row(
        "KeyValueMemNN, where guessing hits all",
        [r["one_set"]["network"] for r in runs],
    )
    row(
        "regression, where guessing hits all",
        [r["one_set"]["regression"] for r in runs],
    )
    for name, figure in PUBLISHED.items() if own is None else ():
        lines.append(
            f"published, trained on all of WikiMovies: {name:10s}{figure:6.1f}"
        )
    return "\n".join(lines)


def report(
    lines: list[Run],
    data: dict[str, Any],
    hops: int,
    brackets: bool,
    training: dict[str, Any],
    own: pathlib.Path | None = None,
) -> dict[str, Any]:
    """Returns the JSON report of `lines`, the lines of the runs file.

    Other processes may have written some of these lines.
    """
    runs = [line["result"] for line in lines]
    return {
        "what": f"MetaQA, {hops}-hop questions, hits@1 in per cent",
        "entities": "given by brackets" if brackets else "found by their names",
        "model": {"class": "KeyValueMemNN", **model_of(hops)},
        "training": training,
        "data": facts_of(data),
        **({} if own is None else {"questions": str(own)}),
        "runs": runs,
        "mean": {
            name: round(float(np.mean([r[name] for r in runs])), 2)
            for name in ("network", "regression", "ceiling")
        },
        "published": {
            "source": "Miller et al. (2016), table 2; trained on WikiMovies",
            **PUBLISHED,
        },
        "versions": {
            "keras_attention": __version__,
            "keras": sorted({line["keras"] for line in lines}),
            "backend": sorted({line["backend"] for line in lines}),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "date": datetime.date.today().isoformat(),
    }
