"""The command line: `python -m keras_attention.benchmarks COMMAND …`.

A command is a module with `add_arguments(parser)` and `main(args)`. `main` returns the
exit status. Only the module of the requested command is imported.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from keras_attention.benchmarks.errors import UsageError

COMMANDS = {
    "babi": (
        "keras_attention.benchmarks.babi.command",
        "train on the bAbI tasks and print our errors beside the papers'",
    ),
    "bags": (
        "keras_attention.benchmarks.bags.command",
        "train HopfieldClassifier on bags and print our AUC beside the paper's",
    ),
    "blocks": (
        "keras_attention.benchmarks.dnc.reinforcement.command",
        "train a DNC by reinforcement to move blocks to the goal asked for",
    ),
    "capacity": (
        "keras_attention.benchmarks.capacity",
        "measure how many patterns memories of neurons hold, beside theory",
    ),
    "captions": (
        "keras_attention.benchmarks.captions.command",
        "caption digits from features, with soft and hard attention",
    ),
    "devices": (
        "keras_attention.benchmarks.devices.command",
        "train each model on eight virtual devices and compare with one",
    ),
    "dnc": (
        "keras_attention.benchmarks.dnc.command",
        "train DNCs to copy, sort, find ways in graphs, move blocks and read bAbI",
    ),
    "five-tasks": (
        "keras_attention.benchmarks.five_tasks.command",
        "compare nine models on five tasks, with equal weights and equal CPU time",
    ),
    "forgetting": (
        "keras_attention.benchmarks.forgetting",
        "measure what a network's last state forgets, beside attention over its states",
    ),
    "lengths": (
        "keras_attention.benchmarks.lengths",
        "measure BLEU over sentence length, with and without attention",
    ),
    "linking": (
        "keras_attention.benchmarks.linking",
        "link questions as people write them to the films of a knowledge base",
    ),
    "memnn": (
        "keras_attention.benchmarks.memnn.command",
        "train MemNN with supporting facts; answer from a memory of a million facts",
    ),
    "metaqa": (
        "keras_attention.benchmarks.metaqa",
        "train KeyValueMemNN on MetaQA and print our hits@1 beside a regression's",
    ),
    "retrieval": (
        "keras_attention.benchmarks.retrieval",
        "bring back half-hidden digits, and count how many come back",
    ),
    "scale": (
        "keras_attention.benchmarks.scale.command",
        "measure how time and memory grow with the size of the input",
    ),
    "sentiment": (
        "keras_attention.benchmarks.sentiment",
        "train a Transformer on SST-2 and print its accuracy beside a regression's",
    ),
    "speed": (
        "keras_attention.benchmarks.speed.command",
        "time our code against its peers, side by side",
    ),
    "translation": (
        "keras_attention.benchmarks.translation.command",
        "train translators on Multi30k and print their BLEU",
    ),
    "words": (
        "keras_attention.benchmarks.words.command",
        "train SkipGram on captions and print what it knows beside gensim's Word2Vec",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(prog="python -m keras_attention.benchmarks")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = None
    for name, (module, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if arguments[:1] == [name]:
            chosen = importlib.import_module(module)
            chosen.add_arguments(command)
    return _run(chosen, parser.parse_args(arguments))


def _run(module: Any, args: argparse.Namespace) -> int:
    """Runs `module.main` and prints usage errors as one line without a traceback."""
    try:
        return module.main(args)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
