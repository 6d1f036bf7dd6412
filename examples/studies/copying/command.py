"""Names that training does not contain, with and without copying.

    python examples/studies/copying --json dates.json
    python examples/studies/copying --data tatoeba --json tatoeba.json

A `Seq2Seq` writes a record of a sentence with a date and one or two names, or
translates Dutch sentences of Tatoeba with names. The test names occur neither in
training nor in the vocabulary. Three ways to write a name are compared:

- copy: `Seq2Seq(copy=…)`, a pointer-generator (See et al., 2017).
- none: the same without copying. It can only write the unknown word.
- replaced: the network of "none". Each unknown word that it writes is replaced by the
  source word with the largest attention weight.

The networks are otherwise equal, and so are their batches. BLEU on Tatoeba needs the
extra `bench` (sacrebleu).

Shapes: B batch, S source words, T target words.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import DataNotFoundError, translation
from keras_attention.layers.base.recording import record_attention
from keras_attention.models import Seq2Seq
from keras_attention.text.vocabulary import PADDING, START, UNKNOWN, tokenize
from studies import command_line, reports
from studies.batches import Batches
from studies.command_line import UsageError
from studies.copying import data as pairs_of
from studies.copying.report import table, tables
from studies.store import opened

MODEL: dict[str, Any] = {"cell": "gru", "units": 64, "embedding_dim": 64}
TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "rate": 0.004,
    "decay": "cosine",
    "clipnorm": 1.0,
    "batch_size": 64,
    "extra_ids": 8,
    "names": 5000,  # made-up names of training
    "longest": 26,  # maximum number of words of a side, with the end
}
OF_DATA: dict[str, dict[str, Any]] = {
    # Each name occurs twice on average, so min_count leaves all of them out.
    "dates": {
        "pairs": 6000,
        "epochs": 6,
        "min_count": 25,
        "tested": 1000,
        "widths": [14],  # of padded batches, besides the maximum
    },
    "tatoeba": {
        "pairs": 24_000,
        "epochs": 4,
        "min_count": 3,
        "renamed": 0.5,
        "widths": [10, 14],
    },
}
TOGETHER = 100  # sentences that are written in one call
NEEDED = ("kind", "data", "seed", "backend", "keras", "settings", "result")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `copying`."""
    add = parser.add_argument
    add("--data", choices=tuple(OF_DATA), default="dates")
    add("--kinds", nargs="+", choices=("copy", "none"), default=["copy", "none"])
    add("--epochs", type=int)
    add("--pairs", type=int, help="to train on")
    add("--renamed", type=float, help="share of training pairs with made-up names")
    add(
        "--split",
        choices=("valid", "test"),
        default="test",
        help="what is tested; choose settings on valid",
    )
    command_line.add_runs(parser, (0, 1, 2), page=True)


def main(args: argparse.Namespace) -> int:
    """Trains the models, prints the table and writes the requested files."""
    command_line.at_least_one(args, "epochs", "pairs")
    settings = {**MODEL, **TRAINING, **OF_DATA[args.data], "split": args.split}
    for name in ("epochs", "pairs", "renamed"):
        if getattr(args, name) is not None:
            settings[name] = getattr(args, name)
    store = opened(args.out, NEEDED)
    data, runs = None, []
    for seed in dict.fromkeys(args.seeds):
        for kind in dict.fromkeys(args.kinds):
            one = {"kind": kind, "data": args.data, "seed": seed}
            one["backend"] = keras.config.backend()
            run = store.done(kind, settings, **one)
            if run is None:
                data = load(args.data, settings) if data is None else data
                result = train(data, kind, seed, settings)
                head = {**one, **reports.environment(), "settings": settings}
                run = store.add({**head, "result": result})
            runs.append(run)
            results = {**reports.head("copying"), "runs": runs}
            command_line.write(args, results, tables({args.data: results}))
    print(table(runs))
    return 0


def load(name: str, settings: dict[str, Any]) -> pairs_of.Data:
    """Loads the pairs, or raises a `UsageError`."""
    if name == "dates":
        return pairs_of.dated(settings, settings["split"])
    try:
        return pairs_of.tatoeba(settings, settings["split"])
    except DataNotFoundError as error:
        raise UsageError(str(error)) from error


def train(
    data: pairs_of.Data, kind: str, seed: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Trains one network and tests it.

    Args:
        data: the pairs.
        kind: "copy" or "none".
        seed: the seed of the weights and the batches.
        settings: `MODEL`, `TRAINING` and an entry of `OF_DATA`.

    Returns:
        The results of each test for each way to write a name, and the training time.
    """
    keras.utils.set_random_seed(seed)
    size = len(data.vocabulary)
    extra_ids = settings["extra_ids"] if kind == "copy" else 0
    sizes = {name: settings[name] for name in MODEL}
    model = Seq2Seq(size, size, **sizes, copy=extra_ids)
    batches = batches_of(data, extra_ids, seed, settings)
    steps = settings["epochs"] * len(batches)
    rate = keras.optimizers.schedules.CosineDecay(settings["rate"], steps)
    model.compile(
        keras.optimizers.Adam(rate, global_clipnorm=settings["clipnorm"]),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    cpu = time.process_time()
    done = model.fit(batches, epochs=settings["epochs"], verbose=2, shuffle=False)
    fit_cpu = time.process_time() - cpu
    tests: dict[str, dict[str, Any]] = {}
    for name, test in data.tests.items():
        written, replaced = write(model, data, test.pairs)
        tests[name] = {kind: score(written, test, data)}
        if kind == "none":
            tests[name]["replaced"] = score(replaced, test, data)
    return {
        "parameters": model.count_params(),
        "vocabulary": size,
        "steps": steps,
        "loss": round(done.history["loss"][-1], 4),
        "fit_cpu_seconds": round(fit_cpu, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "tests": tests,
    }


def batches_of(
    data: pairs_of.Data, extra_ids: int, seed: int, settings: dict[str, Any]
) -> Batches:
    """Returns the training batches, without pairs that are too long."""
    vocabulary = data.vocabulary
    inputs, labels = translation.vectorize(
        data.train, vocabulary, vocabulary, extra_ids=extra_ids
    )
    longest = settings["longest"]
    short = (inputs["source"] != 0).sum(1) <= longest
    short &= (labels != 0).sum(1) <= longest
    inputs = {name: array[short] for name, array in inputs.items()}
    size, widths = settings["batch_size"], (*settings["widths"], longest)
    return Batches(translation.buckets(inputs, labels[short], size, widths, seed))


def write(
    model: Seq2Seq, data: pairs_of.Data, pairs: Sequence[tuple[str, str]]
) -> tuple[list[list[str]], list[list[str]]]:
    """Returns the words that a model writes greedily for each source.

    The second list has source words in place of the unknown words.
    """
    written, replaced = [], []
    lower = data.vocabulary.lowercase
    width = max(len(tokenize(source, lower)) for source, _ in pairs)  # one shape
    for start in range(0, len(pairs), TOGETHER):
        texts = [source for source, _ in pairs[start : start + TOGETHER]]
        texts += texts[:1] * (TOGETHER - len(texts))  # one batch size
        extended = [data.vocabulary.extended(text, model.extra_ids) for text in texts]
        rows = [v.encode(text) for v, text in zip(extended, texts)]
        source = keras.utils.pad_sequences(rows, width, padding="post")  # (B, S)
        tokens = model.generate(source, max_length=width + 10)  # (B, T)
        target = np.pad(tokens[:, :-1], ((0, 0), (1, 0)), constant_values=2)
        attended = None
        if not model.extra_ids:
            with record_attention() as maps:
                model({"source": source, "target": target})
            (weights,) = maps.values()  # (B, T, S)
            attended = np.asarray(weights).argmax(-1)  # (B, T)
        for n in range(min(TOGETHER, len(pairs) - start)):
            words = extended[n].decode(tokens[n]).split()
            written.append(words)
            if attended is not None:
                read = tokenize(texts[n], lower)
                steps = np.flatnonzero((tokens[n] != PADDING) & (tokens[n] != START))
                words = [
                    read[attended[n, t]] if tokens[n, t] == UNKNOWN else word
                    for t, word in zip(steps, words)
                ]
            replaced.append(words)
    return written, replaced


def score(
    written: Sequence[Sequence[str]], test: pairs_of.Test, data: pairs_of.Data
) -> dict[str, Any]:
    """Returns the share of sentences with the right names, and of exact ones.

    The names are right if the sentence has these names of the test alone, in the order
    of the target.
    """
    lower = data.vocabulary.lowercase
    targets = [tokenize(target, lower) for _, target in test.pairs]
    exact = np.mean([[*a] == b for a, b in zip(written, targets)])
    result: dict[str, Any] = {
        "sentences": len(targets),
        "exact": round(float(exact), 4),
    }
    names = [tokenize(" ".join(names), lower) for names in test.names]
    if any(names):
        known = {word for words in names for word in words}
        right = [
            [word for word in words if word in known] == wanted
            for words, wanted in zip(written, names)
        ]
        result["names"] = round(float(np.mean(right)), 4)
    else:
        from sacrebleu.metrics.bleu import BLEU

        metric = BLEU(tokenize="none", force=True)  # the texts are words already
        texts = [" ".join(words) for words in written]
        found = metric.corpus_score(texts, [[" ".join(words) for words in targets]])
        result["bleu"] = round(float(found.score), 2)
        result["signature"] = str(metric.get_signature())
    return result
