"""Measures translation quality over sentence length, with and without attention.

    python examples/studies/lengths --json lengths.json --page tables.md

Two `Seq2Seq` models translate Dutch sentences of Tatoeba into English. One attends to
the states of all source words (Bahdanau et al., 2015). The other has one vector for the
whole sentence (Sutskever et al., 2014). The two are otherwise equal, and so are their
batches. The test sentences are sorted by the number of their source words, and each
group gets a BLEU of its own. Needs the extra `bench` (sacrebleu).

Shapes: B batch, S source words, T target words.
"""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import DataNotFoundError, translation
from keras_attention.layers.base.recording import record_attention
from keras_attention.models import Seq2Seq
from studies import command_line, reports
from studies.batches import Batches
from studies.command_line import UsageError
from studies.lengths.report import KINDS, LABELS, series, table, tables
from studies.store import opened

MODEL: dict[str, Any] = {"cell": "gru", "units": 64, "embedding_dim": 64}
TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "rate": 0.004,
    "decay": "cosine",
    "clipnorm": 1.0,
    "batch_size": 64,
    "epochs": 4,
    "min_count": 3,  # a rarer word is unknown
    "pairs": 24_000,  # drawn at random from all pairs of the training
    "longest": 26,  # maximum number of words of a pair, with the end
    "dropout": 0.1,
}
# The first number of source words of each group; punctuation marks are words.
GROUPS = (1, 5, 6, 7, 8, 10, 12, 14)
WIDTHS = (8, 10, 13)  # widths of padded batches, besides the maximum
TOGETHER = 128  # sentences that are translated in one call
SHOWN_LENGTHS = range(8, 11)  # source words of the alignment that is kept
NEEDED = ("attention", "seed", "backend", "keras", "settings", "result")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `lengths`."""
    add = parser.add_argument
    add("--attention", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    add("--epochs", type=int, default=TRAINING["epochs"])
    add("--units", type=int, default=MODEL["units"], help="of the GRUs")
    add("--pairs", type=int, default=TRAINING["pairs"], help="to train on")
    add(
        "--split",
        choices=("valid", "test"),
        default="test",
        help="what is translated; choose settings on valid",
    )
    add("--plot", type=pathlib.Path, help="where to draw them (needs matplotlib)")
    command_line.add_runs(parser, (0,), page=True)


def main(args: argparse.Namespace) -> int:
    """Trains the models, prints the table and writes the requested files."""
    command_line.at_least_one(args, "epochs", "units", "pairs")
    if importlib.util.find_spec("sacrebleu") is None:
        raise UsageError(
            "`lengths` needs sacrebleu. Next: "
            'python -m pip install "keras-attention-family[bench]"'
        )
    settings = {
        **MODEL,
        **TRAINING,
        "epochs": args.epochs,
        "units": args.units,
        "pairs": args.pairs,
        "split": args.split,
        "groups": list(GROUPS),
    }
    store = opened(args.out, NEEDED)
    data, runs = None, []
    for seed in dict.fromkeys(args.seeds):
        for kind in dict.fromkeys(args.attention):
            one = {"attention": kind, "seed": seed, "backend": keras.config.backend()}
            run = store.done(kind, settings, **one)
            if run is None:
                data = Data(settings) if data is None else data
                result = train(data, kind, seed, settings)
                head = {**one, "keras": keras.__version__, "settings": settings}
                run = store.add({**head, "result": result})
            runs.append(run)
            results = {**reports.head("lengths"), "runs": runs}
            command_line.write(args, results, tables({"lengths": results}))
    print(table(runs))
    if args.plot:
        from studies.pictures import plot_curves

        plot_curves(series(runs), **LABELS).savefig(args.plot, dpi=160)
    return 0


class Data:
    """The pairs, their vocabularies and the groups of the test sentences.

    Args:
        settings: `TRAINING` with "split" and "groups".

    Raises:
        UsageError: Tatoeba cannot be found.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        try:
            self.train, tested = (
                translation.load("tatoeba", split, source="nl", target="en")
                for split in ("train", settings["split"])
            )
        except DataNotFoundError as error:
            raise UsageError(str(error)) from error
        order = np.random.default_rng(0).permutation(len(self.train))
        self.train = [self.train[n] for n in order[: settings["pairs"]]]
        self.source, self.target = (
            translation.Vocabulary.from_sentences(
                [pair[side] for pair in self.train], min_count=settings["min_count"]
            )
            for side in (0, 1)
        )
        # A sentence with several translations is tested once, with all of them.
        self.references: dict[str, list[str]] = {}
        for pair in tested:
            text = " ".join(translation.tokenize(pair.target))
            self.references.setdefault(pair.source, []).append(text)
        self.texts = list(self.references)
        words = [len(translation.tokenize(text)) for text in self.texts]
        self.words = np.array(words)  # of each test sentence
        group = np.searchsorted(settings["groups"], self.words, "right") - 1
        self.groups = [np.flatnonzero(group == n) for n in range(group.max() + 1)]

    def batches(self, settings: dict[str, Any], seed: int) -> Batches:
        """Returns the training batches, without pairs that are too long."""
        inputs, labels = translation.vectorize(self.train, self.source, self.target)
        longest = settings["longest"]
        short = (inputs["source"] != 0).sum(1) <= longest
        short &= (labels != 0).sum(1) <= longest
        inputs = {name: array[short] for name, array in inputs.items()}
        size, widths = settings["batch_size"], (*WIDTHS, longest)
        return Batches(translation.buckets(inputs, labels[short], size, widths, seed))


def train(data: Data, kind: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Trains one network and tests it on each group of lengths.

    Args:
        data: the sentences.
        kind: a name in `KINDS`.
        seed: the seed of the weights, the dropout and the batches.
        settings: `MODEL` and `TRAINING`.

    Returns:
        "groups", for each group its "words" (mean number), "sentences", "bleu" and
        "exact"; "bleu" of all sentences; the loss, the duration, and with attention an
        "example" with its weights.
    """
    keras.utils.set_random_seed(seed)
    model = Seq2Seq(
        len(data.source),
        len(data.target),
        attention=None if kind == "none" else kind,
        dropout=settings["dropout"],
        **{name: settings[name] for name in MODEL},
    )
    batches = data.batches(settings, seed)
    rate = keras.optimizers.schedules.CosineDecay(
        settings["rate"], settings["epochs"] * len(batches)
    )
    model.compile(
        keras.optimizers.Adam(rate, global_clipnorm=settings["clipnorm"]),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    cpu = time.process_time()
    done = model.fit(batches, epochs=settings["epochs"], verbose=2, shuffle=False)
    fit_cpu = time.process_time() - cpu
    written = translate(model, data)
    groups = [
        {
            "words": round(float(data.words[rows].mean()), 2),
            "range": [int(data.words[rows].min()), int(data.words[rows].max())],
            **score(data, written, rows),
        }
        for rows in data.groups
    ]
    return {
        "parameters": model.count_params(),
        "steps": settings["epochs"] * len(batches),
        "loss": round(done.history["loss"][-1], 4),
        "fit_cpu_seconds": round(fit_cpu, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        **score(data, written, np.arange(len(written))),
        "groups": groups,
        "example": None if kind == "none" else example(model, data, written),
    }


def translate(model: Seq2Seq, data: Data) -> list[str]:
    """Translates all test sentences greedily, in batches of similar lengths."""
    written = [""] * len(data.texts)
    by_length = np.argsort(data.words, kind="stable")
    for start in range(0, len(by_length), TOGETHER):
        rows = by_length[start : start + TOGETHER]
        source = np.zeros((TOGETHER, data.words[rows[-1]]), "int32")  # (B, S)
        source[:, 0] = 1  # padding rows of the last batch
        for row, n in zip(source, rows):
            row[: data.words[n]] = data.source.encode(data.texts[n])
        tokens = model.generate(source, max_length=int(source.shape[1]) + 10)
        for n, row in zip(rows, tokens):
            written[n] = data.target.decode(row)
    return written


def score(data: Data, written: Sequence[str], rows: np.ndarray) -> dict[str, Any]:
    """Returns the BLEU of some sentences in per cent, and how many are exact."""
    from sacrebleu.metrics.bleu import BLEU

    wanted = [data.references[data.texts[n]] for n in rows]
    most = max(len(texts) for texts in wanted)
    streams = [[[*texts, *[None] * most][n] for texts in wanted] for n in range(most)]
    texts = [written[n] for n in rows]
    metric = BLEU(tokenize="none", force=True)  # the texts are words already
    found = metric.corpus_score(texts, streams)
    exact = [text in references for text, references in zip(texts, wanted)]
    return {
        "sentences": len(texts),
        "bleu": round(float(found.score), 2),
        "exact": round(float(np.mean(exact)), 4),
        "signature": str(metric.get_signature()),
    }


def example(model: Seq2Seq, data: Data, written: Sequence[str]) -> dict[str, Any]:
    """Returns the weights of the first exact translation of a fitting length."""
    exact = [
        n
        for n, text in enumerate(data.texts)
        if written[n] in data.references[text] and data.words[n] in SHOWN_LENGTHS
    ]
    if not exact:
        return {}
    text, words = data.texts[exact[0]], written[exact[0]]
    source = np.array([data.source.encode(text)], "int32")  # (1, S)
    target = np.array([[2, *data.target.encode(words)[:-1]]], "int32")  # (1, T)
    with record_attention() as maps:
        model({"source": source, "target": target})
    (weights,) = maps.values()  # (1, T, S)
    return {
        "source": translation.tokenize(text),
        "written": words.split(),
        "weights": np.asarray(weights[0], float).round(3).tolist(),
    }
