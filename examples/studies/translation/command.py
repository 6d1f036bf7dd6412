"""Multi30k: BLEU of recurrent translators and a Transformer, and of their peers.

    python examples/studies/translation --json translation.json
    python examples/studies/translation --attention luong --out a.jsonl
    python examples/studies/translation --attention none --order reversed
    python examples/studies/translation --model transformer
    python examples/studies/translation --model torch
    python examples/studies/translation --save folder --test pairs.tsv
    python examples/studies/translation --score folder/bahdanau-0 --test other.tsv

The peer of a recurrent translator is the same model without attention. The peer of the
Transformer is torch.nn.Transformer (`--model torch`) with the same initial weights from
NumPy, the same batches and the same number of steps. `python tests/speed translation`
measures the time of training steps of both.

Each network is trained on the 29,000 training pairs. Its final weights are tested on
the 1,000 test pairs of 2016 with greedy decoding and a beam of five. `--test` gives
another file of test pairs: each line has a text, a tab and its translation. `--save`
keeps each trained network and its subwords in a folder of its own, such as
`folder/bahdanau-0`, and `--score` tests such a network again without training. Each
finished run adds a line to the file given by `--out`. Repeat the command to resume. The
command needs the extras `text` (subwords) and `bench` (sacrebleu).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import pathlib
from typing import Any

import keras

from keras_attention.datasets import DataNotFoundError, translation
from studies import reports
from studies.command_line import UsageError
from studies.store import Run, Store, opened
from studies.translation import training, transformer

ATTENTIONS = ("bahdanau", "luong", "none")
TRANSFORMERS = ("transformer", "torch")
ORDERS = ("forward", "reversed", "doubled")
# Published BLEU on test2016, German to English, with 512 units:
# https://github.com/bentrevett/pytorch-seq2seq, notebooks 2 and 3. The authors of these
# models computed BLEU, each in a different way.
PUBLISHED = (("GRU, no attention", 20.6), ("GRU and Bahdanau's attention", 28.3))
NEEDED_MODULES = ("sacrebleu", "tensorflow_text", "keras_hub", "sentencepiece")
NEEDED = ("attention", "order", "seed", "backend", "keras", "settings", "result")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `translation`."""
    add = parser.add_argument
    add(
        "--model",
        choices=("recurrent", *TRANSFORMERS),
        default="recurrent",
        help="torch: torch.nn.Transformer from the same weights",
    )
    add("--attention", nargs="+", choices=ATTENTIONS, default=["bahdanau", "none"])
    add(
        "--order",
        choices=ORDERS,
        default="forward",
        help="of the source: as it is, last word first, or twice over",
    )
    add("--source", choices=("en", "de"), default="en", help="what is translated")
    add("--seeds", type=int, nargs="+", default=[0])
    add("--epochs", type=int, help="default: 6 of a recurrent one, else 8")
    add("--pairs", type=int, help="to train on; default: all")
    add("--units", type=int, default=training.MODEL["units"], help="of the GRUs")
    add("--test", type=pathlib.Path, help="a file of your own test pairs")
    add("--score", type=pathlib.Path, help="the folder of a saved network to test")
    add("--save", type=pathlib.Path, help="a folder for the trained networks")
    add("--out", type=pathlib.Path, help="runs as they end, and to go on from")
    add("--json", type=pathlib.Path, help="where to write the results")


def main(args: argparse.Namespace) -> int:
    """Trains the requested models. Prints their BLEU next to published values."""
    if missing():
        raise UsageError(
            f"`translation` needs {', '.join(missing())}. Next: "
            'python -m pip install "keras-attention-family[text,bench]"'
        )
    if args.score is not None:
        return _score(args)
    settings = _settings(args)
    _check_save(args)
    test = None if args.test is None else _pairs(args.test)
    store = opened(args.out, NEEDED)
    kinds = [args.model] if args.model in TRANSFORMERS else args.attention
    wanted = [
        {
            "attention": kind,  # or a name of a Transformer
            "order": args.order,
            "seed": seed,
            "backend": keras.config.backend(),
            "test": None if test is None else str(args.test),
        }
        for seed in dict.fromkeys(args.seeds)
        for kind in dict.fromkeys(kinds)
    ]
    # Look up all runs first, so that errors appear immediately.
    found = [store.done(one["attention"], settings, **one) for one in wanted]
    for one, run in zip(wanted, found):
        folder = _folder(args.save, one)
        if run is not None and folder and not (folder / "model.keras").exists():
            raise UsageError(
                f"--out {args.out} has a finished run whose network is not in {folder}."
                " Name another --out to train it again."
            )
    data, runs = None, []
    for one, run in zip(wanted, found):
        if run is None:
            data = _data(settings) if data is None else data
            if test is not None:
                data = data._replace(pairs={**data.pairs, "test": test})
            run = _do(store, data, one, settings, _folder(args.save, one))
        runs.append(run)
        if args.json:  # save after each run
            args.json.write_text(json.dumps(_report(runs), indent=1) + "\n")
    print(_table(runs))
    return 0


def missing() -> list[str]:
    """Returns the required modules that are not installed."""
    return [name for name in NEEDED_MODULES if importlib.util.find_spec(name) is None]


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    for name in ("epochs", "pairs", "units"):
        given = getattr(args, name)
        if given is not None and given < 1:
            raise UsageError(f"--{name} must be at least 1. Received: {given}")
    recurrent = args.model == "recurrent"
    kind = training if recurrent else transformer
    return {
        **kind.MODEL,
        **kind.TRAINING,
        **training.GENERATED,
        **({"units": args.units} if recurrent else {}),
        **({"epochs": args.epochs} if args.epochs else {}),
        **({"pairs": args.pairs} if args.pairs else {}),
        "languages": [args.source, {"en": "de", "de": "en"}[args.source]],
        "source": args.order,
    }


def _score(args: argparse.Namespace) -> int:
    """Prints the BLEU of a saved network on the pairs of --test."""
    if args.test is None:
        raise UsageError("--score needs --test, a file of text, tab and translation")
    for name in ("source.spm", "target.spm", "model.keras"):
        if not (args.score / name).is_file():
            raise UsageError(
                f"--score must be a folder that --save wrote. Received: {args.score} "
                f"without {name}"
            )
    from keras_attention.text import Subwords  # imports TensorFlow Text only here

    pairs = {"test": _pairs(args.test)}
    order = args.order
    if order == "forward":  # the folder's name has the order, see `_folder`
        order = next((o for o in ORDERS if f"-{o}-" in args.score.name), order)
    data = training.Data(
        pairs, *(Subwords.load(args.score / f"{n}.spm") for n in ("source", "target"))
    )
    model = keras.saving.load_model(args.score / "model.keras")
    bleu, about = training.scores(model, data, "test", order)
    print(f"{args.score}, {order}: BLEU {bleu}\nsacrebleu {about['signature']}")
    if args.json:
        report = {"network": str(args.score), "test": str(args.test), "order": order}
        text = json.dumps({**report, "bleu": bleu, **about}, indent=1)
        args.json.write_text(text + "\n", encoding="utf-8")
    return 0


def _data(settings: dict[str, Any]) -> training.Data:
    try:
        return training.data(
            settings["languages"], settings["subwords"], settings.get("pairs")
        )
    except DataNotFoundError as error:
        raise UsageError(str(error)) from error


def _pairs(path: pathlib.Path) -> list[translation.Pair]:
    try:
        pairs = translation.read_tabbed(path)
    except (DataNotFoundError, ValueError) as error:
        raise UsageError(f"--test: {error}") from error
    if not pairs:
        raise UsageError(f"--test {path} must have at least one pair")
    return pairs


def _check_save(args: argparse.Namespace) -> None:
    if args.save is None:
        return
    if args.model == "torch":
        raise UsageError(
            "--save keeps Keras networks: --model must be recurrent or transformer. "
            f"Received: --model {args.model}"
        )
    try:
        args.save.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--save {args.save} cannot be used: {error}") from error


def _folder(save: pathlib.Path | None, one: dict[str, Any]) -> pathlib.Path | None:
    """Returns the folder of the network of a run, or None if it is not saved."""
    order = "" if one["order"] == "forward" else f"-{one['order']}"
    return None if save is None else save / f"{one['attention']}{order}-{one['seed']}"


def _save(model: Any, data: training.Data, folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    data.source.save(folder / "source.spm")
    data.target.save(folder / "target.spm")
    model.save(folder / "model.keras")


def _do(
    store: Store,
    data: training.Data,
    one: dict[str, Any],
    settings: dict[str, Any],
    folder: pathlib.Path | None = None,
) -> Run:
    kind, seed = one["attention"], one["seed"]
    print(f"{kind}, seed {seed}", flush=True)
    samplers: tuple[str, ...] = training.SAMPLERS
    if kind in TRANSFORMERS:
        peer = kind == "torch"
        model, row = transformer.learn(data, seed, settings, peer)
        samplers = samplers[:1] if peer else samplers  # torch.nn has none
    else:
        attention = None if kind == "none" else kind
        model, row = training.learn(data, attention, seed, settings)
    if folder is not None:
        _save(model, data, folder)
    bleu, about = training.scores(model, data, "test", one["order"], samplers)
    result = {**row, "bleu": bleu, **about}
    print(f"  BLEU {bleu}, trained in {row['fit_seconds']:.0f} s", flush=True)
    run = {**one, **reports.environment(), "settings": settings, "result": result}
    return store.add(run)


def _report(runs: list[Run]) -> dict[str, Any]:
    return {
        **reports.head("translation"),
        "published": [list(row) for row in PUBLISHED],
        "runs": runs,
    }


def _table(runs: list[Run]) -> str:
    """Formats the BLEU of each run and its sacrebleu signature."""
    lines = [f"{'attention':12}{'seed':>5}{'greedy':>8}{'beam 5':>8}{'trained':>10}"]
    for run in runs:
        result = run["result"]
        lines.append(
            f"{run['attention']:12}{run['seed']:5}{result['bleu']['greedy']:8.2f}"
            f"{result['bleu'].get('beam', math.nan):8.2f}"
            f"{result['fit_seconds']:8.0f} s"
        )
    lines += [
        "",
        f"sacrebleu {runs[-1]['result']['signature']}",
        "",
        "published, de→en:",
    ]
    lines += [f"  {name:30}{score:6.1f}" for name, score in PUBLISHED]
    return "\n".join(lines)
