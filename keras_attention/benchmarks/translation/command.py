"""Multi30k: BLEU of recurrent translators with attention, and of the same without.

    python -m keras_attention.benchmarks translation --json translation.json
    python -m keras_attention.benchmarks translation --attention luong --out a.jsonl
    python -m keras_attention.benchmarks translation --attention none --order reversed

Each network is trained on the 29,000 training pairs and tested on the 1,000 of the test
of 2016, its last weights, by greedy decoding and by a beam of five. Each finished run
is a line of the file `--out`; the same command goes on from there. It needs the extras
`text` (sub-words) and `bench` (sacrebleu).
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import pathlib
import platform
from typing import Any

import keras

from keras_attention.benchmarks.errors import UsageError
from keras_attention.benchmarks.store import Run, Store, opened
from keras_attention.benchmarks.translation import training
from keras_attention.datasets import DataNotFoundError
from keras_attention.version import __version__

ATTENTIONS = ("bahdanau", "luong", "none")
ORDERS = ("forward", "reversed", "doubled")
# test2016, German to English, as their authors count BLEU (each in another way):
# https://github.com/bentrevett/pytorch-seq2seq, notebooks 2 and 3; 512 units.
PUBLISHED = (("GRU, no attention", 20.6), ("GRU and Bahdanau's attention", 28.3))
NEEDED_MODULES = ("sacrebleu", "tensorflow_text", "keras_hub", "sentencepiece")
NEEDED = ("attention", "order", "seed", "backend", "keras", "settings", "result")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `translation`."""
    add = parser.add_argument
    add("--attention", nargs="+", choices=ATTENTIONS, default=["bahdanau", "none"])
    add(
        "--order",
        choices=ORDERS,
        default="forward",
        help="of the source: as it is, last word first, or twice over",
    )
    add("--source", choices=("en", "de"), default="en", help="what is translated")
    add("--seeds", type=int, nargs="+", default=[0])
    add("--epochs", type=int, default=training.TRAINING["epochs"])
    add("--units", type=int, default=training.MODEL["units"], help="of the GRUs")
    add("--out", type=pathlib.Path, help="runs as they end, and to go on from")
    add("--json", type=pathlib.Path, help="where to write the results")


def main(args: argparse.Namespace) -> int:
    """Trains what is asked for and prints BLEU beside what was published."""
    if missing():
        raise UsageError(
            f"`translation` needs {', '.join(missing())}. Next: "
            'python -m pip install "keras-attention-family[text,bench]"'
        )
    store = opened(args.out, NEEDED)
    settings = _settings(args)
    wanted = [
        {
            "attention": attention,
            "order": args.order,
            "seed": seed,
            "backend": keras.config.backend(),
        }
        for seed in dict.fromkeys(args.seeds)
        for attention in dict.fromkeys(args.attention)
    ]
    # All of them are looked up before any is done, so that an error comes at once.
    found = [store.done(one["attention"], settings, **one) for one in wanted]
    data, runs = None, []
    for one, run in zip(wanted, found):
        if run is None:
            data = _data(settings) if data is None else data
            run = _do(store, data, one, settings)
        runs.append(run)
        if args.json:  # after each run, so that nothing is lost
            args.json.write_text(json.dumps(_report(runs), indent=1) + "\n")
    print(_table(runs))
    return 0


def missing() -> list[str]:
    """The modules that are needed and not installed."""
    return [name for name in NEEDED_MODULES if importlib.util.find_spec(name) is None]


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    for name in ("epochs", "units"):
        if getattr(args, name) < 1:
            raise UsageError(
                f"--{name} must be at least 1. Received: {getattr(args, name)}"
            )
    return {
        **training.MODEL,
        **training.TRAINING,
        **training.GENERATED,
        "epochs": args.epochs,
        "units": args.units,
        "languages": [args.source, {"en": "de", "de": "en"}[args.source]],
        "source": args.order,
    }


def _data(settings: dict[str, Any]) -> training.Data:
    try:
        return training.data(settings["languages"], settings["subwords"])
    except DataNotFoundError as error:
        raise UsageError(str(error)) from error


def _do(
    store: Store, data: training.Data, one: dict[str, Any], settings: dict[str, Any]
) -> Run:
    attention = None if one["attention"] == "none" else one["attention"]
    print(f"attention {one['attention']}, seed {one['seed']}", flush=True)
    model, row = training.learn(data, attention, one["seed"], settings)
    bleu, about = training.scores(model, data, "test", one["order"])
    result = {**row, "bleu": bleu, **about}
    print(f"  BLEU {bleu}, trained in {row['fit_seconds']:.0f} s", flush=True)
    run = {**one, "keras": keras.__version__, "settings": settings, "result": result}
    return store.add(run)


def _report(runs: list[Run]) -> dict[str, Any]:
    return {
        "benchmark": "translation",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "keras_attention": __version__,
        "published": [list(row) for row in PUBLISHED],
        "runs": runs,
    }


def _table(runs: list[Run]) -> str:
    """BLEU of each run, and the signature by which it was counted."""
    lines = [f"{'attention':12}{'seed':>5}{'greedy':>8}{'beam 5':>8}{'trained':>10}"]
    for run in runs:
        result = run["result"]
        lines.append(
            f"{run['attention']:12}{run['seed']:5}{result['bleu']['greedy']:8.2f}"
            f"{result['bleu']['beam']:8.2f}{result['fit_seconds']:8.0f} s"
        )
    lines += [
        "",
        f"sacrebleu {runs[-1]['result']['signature']}",
        "",
        "published, de→en:",
    ]
    lines += [f"  {name:30}{score:6.1f}" for name, score in PUBLISHED]
    return "\n".join(lines)
