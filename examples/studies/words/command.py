"""Skip-gram on the English captions of Multi30k, compared with gensim's Word2Vec.

    python examples/studies/words --seeds 0 1 2 --json results.json

Both learn from the 29,000 training captions with the same settings and epochs. They are
compared on the questions of pairs.txt and analogies.txt in this folder. These questions
were fixed before any training. Each finished run adds a line to the file given by
`--out`. Repeat the command to resume.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from studies import command_line, reports
from studies.store import Run, opened
from studies.words import questions, training

SYSTEMS: dict[str, tuple[Callable[..., training.Learnt], dict[str, Any]]] = {
    "ours": (training.ours, training.OURS),
    "gensim": (training.gensims, training.GENSIM),
}
NEEDED = ("system", "seed", "settings", "result")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `words`."""
    add = parser.add_argument
    add("--systems", nargs="+", choices=[*SYSTEMS], default=[*SYSTEMS])
    add("--epochs", type=int, default=training.SHARED["epochs"])
    command_line.add_runs(parser, seeds=(0, 1, 2))


def main(args: argparse.Namespace) -> int:
    """Performs the missing runs, prints the table and writes the results."""
    command_line.at_least_one(args, "epochs")
    store = opened(args.out, NEEDED)
    asked, texts, runs = questions.load(), None, []
    shared = {**training.SHARED, "epochs": args.epochs}
    for system in dict.fromkeys(args.systems):
        for seed in dict.fromkeys(args.seeds):
            settings = {**shared, **SYSTEMS[system][1]}
            run = store.done(f"{system}", settings, system=system, seed=seed)
            if run is None:
                texts = training.sentences() if texts is None else texts
                run = store.add(do(system, seed, settings, texts, asked))
            runs.append(run)
            command_line.write(args, report(runs))  # save after each run
    print(table(summary(runs)))
    return 0


def do(
    system: str,
    seed: int,
    settings: dict[str, Any],
    texts: list[str],
    asked: questions.Questions,
) -> Run:
    """Trains word vectors and tests them."""
    learnt = SYSTEMS[system][0](texts, settings, seed)
    known = questions.ask(learnt.words, learnt.vectors, asked)
    return {
        "system": system,
        "seed": seed,
        "backend": keras.config.backend() if system == "ours" else None,
        "keras": keras.__version__,
        "settings": settings,
        "result": {
            "words": len(learnt.words),
            "passed": learnt.passed,
            "seconds": round(learnt.seconds, 6),
            "cpu_seconds": round(learnt.cpu_seconds, 6),
            "pairs": round(float(known.pairs.mean()), 4),
            "analogies": round(float(known.analogies.mean()), 4),
            "known": questions.packed(known),
        },
    }


def summary(runs: list[Run]) -> dict[str, dict[str, Any]]:
    """Returns the mean scores and intervals of both systems and of their difference."""
    tables = {
        system: [
            questions.unpacked(r["result"]["known"]) for r in runs_of(runs, system)
        ]
        for system in SYSTEMS
        if runs_of(runs, system)
    }
    found: dict[str, dict[str, Any]] = {}
    for system, known in tables.items():
        found[system] = {
            name: questions.interval(np.stack([getattr(one, name) for one in known]))
            for name in questions.Known._fields
        }
        results = [run["result"] for run in runs_of(runs, system)]
        passed, cpu = (sum(r[n] for r in results) for n in ("passed", "cpu_seconds"))
        found[system]["words_a_cpu_second"] = round(passed / cpu)
    if len(tables) == 2:
        found["difference"] = {
            name: questions.interval(_difference(tables, name))
            for name in questions.Known._fields
        }
    return found


def runs_of(runs: list[Run], system: str) -> list[Run]:
    """Returns the runs of one system."""
    return [run for run in runs if run["system"] == system]


def _difference(tables: dict[str, list[questions.Known]], name: str) -> np.ndarray:
    """Returns our answers minus gensim's, averaged over the runs, (1, Q, ·)."""
    ours, theirs = (
        np.mean([getattr(one, name).astype(float) for one in tables[system]], axis=0)
        for system in SYSTEMS
    )
    return (ours - theirs)[None]


def table(found: dict[str, dict[str, Any]]) -> str:
    """Formats a `summary`: correct answers with intervals, and words per second."""
    rows = []
    for system, row in found.items():
        cells = [
            "{:.3f} ({:.3f}, {:.3f})".format(*row[name])
            for name in questions.Known._fields
        ]
        speed = row.get("words_a_cpu_second")
        rows.append([system, *cells, "" if speed is None else f"{speed:,}"])
    return reports.table(["mean", *questions.Known._fields, "words/s"], rows)


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/results/words.md."""
    runs = raw["words"]["runs"]
    rows = [
        [run["system"], str(run["seed"])]
        + [f"{run['result'][name]:.3f}" for name in questions.Known._fields]
        for run in runs
    ]
    each = reports.table(["", "seed", *questions.Known._fields], rows)
    return {"means": table(raw["words"]["summary"]), "runs": each}


def report(runs: list[Run]) -> dict[str, Any]:
    """Returns the JSON report."""
    return {
        **reports.head("words"),
        "summary": summary(runs),
        "runs": runs,
    }
