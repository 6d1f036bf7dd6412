"""SST-2: a Transformer from scratch compared with logistic regression.

    python examples/studies/sentiment --seeds 0 1 2 --json results.json
    python examples/studies/sentiment --data mine.tsv

`TransformerClassifier` is trained only on the 6,920 full sentences of SST-2. Its final
weights are tested once on the 1,821 test sentences, and once more after quantization to
8-bit integers. The settings were chosen on the 872 development sentences. The
regression uses the set of words in a sentence.

With `--data`, the texts are those of a tab-separated file with any labels: text, tab
and label, with or without a header. A tenth of each label is for the test, and a tenth
for the development.

Each finished run adds a line to the file given by `--out`. Repeat the command to
resume.
"""

from __future__ import annotations

import argparse
import pathlib
import time
import warnings
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attention.datasets import DataNotFoundError, sentences
from keras_attention.models import TransformerClassifier
from keras_attention.text.vocabulary import PADDING, START, UNKNOWN
from studies import command_line, reports
from studies.batches import differ_first
from studies.command_line import UsageError
from studies.sentiment import labelled
from studies.store import Run, Store, opened

MODEL: dict[str, Any] = {
    "num_layers": 1,
    "dim": 32,
    "num_heads": 4,
    "intermediate_dim": 64,
    "dropout": 0.3,
    "position": "relative",
    "block": {
        "norm_first": True,
        "activation": "gelu",
        "epsilon": 1.0,  # keeps rarely trained words small in each sublayer
        "attention": {"dropout": 0.3},
    },
}
TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "rate": 2e-3,
    "warmup_steps": 100,
    "decay": "cosine",
    "beta_2": 0.98,
    "clipnorm": 1.0,
    "batch_size": 64,
    "epochs": 14,
    "min_count": 2,  # least number of occurrences of a vocabulary word in training
    "word_dropout": 0.6,  # share of training words replaced by the unknown word
}
REGRESSION: dict[str, Any] = {
    "penalties": [0.5, 1, 2, 4],
    "rate": 0.05,
    "decay": "cosine",
    "steps": 300,
}
WIDTHS = (22,)  # of padded batches, besides the maximum
SPLITS = ("train", "dev", "test")
ACCURACIES = {"dev": "dev", "test": "test", "test_int8": "test, int8"}
NEEDED = ("model", "seed", "backend", "keras", "settings", "result")


class Data(NamedTuple):
    """Texts and labels of each split, and the vocabulary of the training split."""

    splits: dict[str, list[sentences.Sentence]]
    vocabulary: sentences.Vocabulary
    classes: int = 2

    def vectors(self, split: str) -> sentences.Vectors:
        """Returns the tokens (N, T) and labels (N,) of a split."""
        return sentences.vectorize(self.splits[split], self.vocabulary)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `sentiment`."""
    command_line.add_runs(parser, seeds=(0, 1, 2))
    parser.add_argument("--epochs", type=int, default=TRAINING["epochs"])
    parser.add_argument("--data", type=pathlib.Path, help="a file of text and label")


def main(args: argparse.Namespace) -> int:
    """Performs the missing runs, prints the table and writes the results."""
    command_line.at_least_one(args, "epochs")
    store = opened(args.out, NEEDED)
    settings = {**MODEL, **TRAINING, "epochs": args.epochs}
    regressed, data = REGRESSION, None
    if args.data is not None:
        data = load(TRAINING["min_count"], args.data)
        size = min(settings["batch_size"], len(data.splits["train"]))
        settings |= {"batch_size": size, "data": str(args.data)}
        regressed = {**REGRESSION, "data": str(args.data)}
    wanted: list[tuple[str, int | None, dict[str, Any]]] = [
        ("regression", None, regressed)
    ]
    wanted += [("network", seed, settings) for seed in dict.fromkeys(args.seeds)]
    backend = keras.config.backend()
    # Look up all runs first, so that errors appear immediately.
    found = [
        store.done(what, about, model=what, seed=seed, backend=backend)
        for what, seed, about in wanted
    ]
    runs = []
    for (what, seed, about), run in zip(wanted, found):
        if run is None:
            data = load(TRAINING["min_count"]) if data is None else data
            run = _do(store, data, what, seed, about)
        runs.append(run)
        command_line.write(args, report(runs))  # save after each run
    print(table(runs))
    return 0


def load(min_count: int, path: pathlib.Path | None = None) -> Data:
    """Loads SST-2, or a file of `labelled.read`, and builds its vocabulary.

    Args:
        min_count: a word is in the vocabulary if it occurs at least this often in the
            training sentences.
        path: the file.
    """
    labels: list[str] = ["negative", "positive"]
    try:
        if path is not None:
            splits, labels = labelled.read(path)
        else:
            splits = {split: sentences.load("sst2", split) for split in SPLITS}
    except (DataNotFoundError, ValueError) as error:
        raise UsageError(str(error)) from error
    texts = [sentence.text for sentence in splits["train"]]
    vocabulary = sentences.Vocabulary.from_sentences(texts, min_count=min_count)
    return Data(splits, vocabulary, len(labels))


class Batches(keras.utils.PyDataset):
    """Shuffled batches of sentences of similar length, with word dropout.

    Args:
        vectors: all sentences.
        batch_size: the number of sentences per batch. In each epoch, the sentences left
            over after the last full batch are skipped.
        word_dropout: the share of words replaced by the unknown word.
        seed: the seed of the order and the dropout.
    """

    def __init__(
        self,
        vectors: sentences.Vectors,
        batch_size: int,
        word_dropout: float,
        seed: int,
    ) -> None:
        super().__init__()
        self._tokens, self._labels = vectors.inputs["tokens"], vectors.labels
        self._size, self._dropped = batch_size, word_dropout
        self._rng = np.random.default_rng(seed)
        lengths = (self._tokens != PADDING).sum(1)
        longest = self._tokens.shape[1]
        self._widths = [*(w for w in WIDTHS if w < longest), longest]
        self._bucket = np.searchsorted(self._widths, lengths)  # (N,)
        self.on_epoch_end()

    def on_epoch_end(self) -> None:
        rest, batches = np.zeros(0, int), []
        for bucket, width in enumerate(self._widths):
            rows = self._rng.permutation(np.flatnonzero(self._bucket == bucket))
            rows = np.concatenate([rest, rows])
            whole = len(rows) // self._size * self._size
            batches += [
                self._read(rows[start : start + self._size], width)
                for start in range(0, whole, self._size)
            ]
            rest = rows[whole:]
        self._batches = [batches[i] for i in self._rng.permutation(len(batches))]
        differ_first(self._batches, lambda batch: batch[0]["tokens"].shape[1])

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        return self._batches[index]

    def _read(
        self, rows: np.ndarray, width: int
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        tokens = self._tokens[rows, :width]
        drop = self._rng.random(tokens.shape) < self._dropped
        tokens = np.where(drop & (tokens != PADDING), UNKNOWN, tokens)
        return {"tokens": tokens.astype("int32")}, self._labels[rows]


def learn(
    data: Data, seed: int, settings: dict[str, Any]
) -> tuple[TransformerClassifier, dict[str, Any]]:
    """Trains a network. Returns the network and statistics of its training.

    Args:
        data: the training sentences, and the development sentences on which the
            accuracy is measured after each epoch.
        seed: the seed of the network, the sentence order and the word dropout.
        settings: `MODEL` and `TRAINING`.
    """
    keras.utils.set_random_seed(seed)
    arguments = {name: settings[name] for name in MODEL}
    model = TransformerClassifier(len(data.vocabulary), data.classes, **arguments)
    train, dev = data.vectors("train"), data.vectors("dev")
    size = settings["batch_size"]
    batches = Batches(train, size, settings["word_dropout"], seed)
    steps = settings["epochs"] * len(batches)
    warm = min(settings["warmup_steps"], steps // 2)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps - warm, warmup_target=settings["rate"], warmup_steps=warm
    )
    optimizer = keras.optimizers.Adam(
        rate, beta_2=settings["beta_2"], global_clipnorm=settings["clipnorm"]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    start, cpu = time.perf_counter(), time.process_time()
    history = model.fit(
        batches,
        epochs=settings["epochs"],
        validation_data=(dev.inputs, dev.labels),
        validation_batch_size=len(dev.labels),
        shuffle=False,
        verbose=0,
    ).history
    return model, {
        "parameters": model.count_params(),
        "steps": steps,
        "dev_of_epochs": [percent(np.array(x)) for x in history["val_accuracy"]],
        "fit_seconds": round(time.perf_counter() - start, 1),
        "fit_cpu_seconds": round(time.process_time() - cpu, 1),
    }


def accuracy(model: keras.Model, vectors: sentences.Vectors) -> float:
    """Returns the accuracy of `model` on `vectors`, in per cent."""
    logits = model.predict(vectors.inputs, batch_size=len(vectors.labels), verbose=0)
    return percent(logits.argmax(1) == vectors.labels)


def percent(right: np.ndarray) -> float:
    """Returns the share of true values in `right`, in per cent."""
    return round(100 * float(right.mean()), 2)


def in_integers(model: TransformerClassifier) -> TransformerClassifier:
    """Returns a copy of the model with its sublayers quantized to 8 bits.

    Sublayers without a quantized form stay as they are.
    """
    copy = TransformerClassifier.from_config(model.get_config())
    copy.set_weights(model.get_weights())
    with warnings.catch_warnings():
        # Every layer that has no quantized form, such as an input, gives this warning.
        warnings.filterwarnings("ignore", message="Layer .* does not have a `quantize`")
        copy.quantize("int8")
    return copy


def run(data: Data, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Trains one network and returns its accuracies in per cent."""
    model, row = learn(data, seed, settings)
    test = data.vectors("test")
    return {
        "dev": row["dev_of_epochs"][-1],
        "test": accuracy(model, test),
        "test_int8": accuracy(in_integers(model), test),
        **row,
    }


def bags(split: list[sentences.Sentence], words: sentences.Vocabulary) -> np.ndarray:
    """Returns the start token and the distinct known words of each sentence, (N, ·).

    All sentences contain the start token. The weight of this token is therefore the
    regression's bias.
    """
    rows = [
        [START, *sorted({*words.encode(sentence.text)} - {UNKNOWN})]
        for sentence in split
    ]
    table = np.full((len(rows), max(map(len, rows))), PADDING, np.int32)
    for line, row in zip(table, rows):
        line[: len(row)] = row
    return table


def regression(data: Data, settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the accuracy of a logistic regression on word sets, in per cent.

    The regression is a one-layer network with one weight per word. Each step uses all
    training sentences. Of several L2 penalties, the one with the best accuracy on the
    development sentences is selected.
    """
    texts = [sentence.text for sentence in data.splits["train"]]
    words = sentences.Vocabulary.from_sentences(texts)
    inputs = {split: bags(data.splits[split], words) for split in SPLITS}
    labels = {
        split: np.array([one.label for one in data.splits[split]]) for split in SPLITS
    }
    tried = []
    for penalty in settings["penalties"]:
        model = _one_layer(len(words), penalty / len(texts), settings, data.classes)
        count = len(texts)
        model.fit(
            inputs["train"],
            labels["train"][:, None],
            batch_size=count,
            epochs=settings["steps"],
            verbose=0,
        )
        row: dict[str, Any] = {"penalty": penalty}
        for split in SPLITS:
            logits = model.predict(inputs[split], batch_size=count, verbose=0)
            if data.classes == 2:
                logits = np.pad(logits, ((0, 0), (1, 0)))  # 0 for the first class
            row[split] = percent(logits.argmax(1) == labels[split])
        tried.append(row)
    best = max(tried, key=lambda row: row["dev"])
    return {**best, "words": len(words), "tried": tried}


def _one_layer(
    size: int, penalty: float, settings: dict[str, Any], classes: int
) -> keras.Model:
    words = keras.Input((None,), dtype="int32")  # (N, ·)
    weights = keras.layers.Embedding(
        size,
        1 if classes == 2 else classes,
        embeddings_initializer="zeros",
        embeddings_regularizer=keras.regularizers.L2(penalty / 2),
    )(words)
    is_valid = ops.cast(ops.not_equal(words, PADDING), "float32")[:, :, None]
    model = keras.Model(words, ops.sum(weights * is_valid, axis=1))  # (N, 1)
    rate = keras.optimizers.schedules.CosineDecay(settings["rate"], settings["steps"])
    loss: Any = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if classes == 2:
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss)
    return model


def _do(
    store: Store, data: Data, what: str, seed: int | None, settings: dict[str, Any]
) -> Run:
    result = regression(data, settings) if seed is None else run(data, seed, settings)
    name = what if seed is None else f"{what}, seed {seed}"
    print(f"{name}: dev {result['dev']} %, test {result['test']} %", flush=True)
    new = {"model": what, "seed": seed, "backend": keras.config.backend()}
    return store.add(
        {**new, "keras": keras.__version__, "settings": settings, "result": result}
    )


def table(runs: list[Run]) -> str:
    """Formats the accuracies of each run, and the mean over the networks."""
    networks = [run["result"] for run in runs if run["model"] == "network"]
    results = {}
    for run in runs:
        seed = "" if run["seed"] is None else f", seed {run['seed']}"
        results[run["model"] + seed] = run["result"]
    results["network, mean"] = {
        name: np.mean([one[name] for one in networks]) for name in ACCURACIES
    }
    rows = [
        [name, *(f"{one[a]:.2f}" if a in one else "" for a in ACCURACIES)]
        for name, one in results.items()
    ]
    return reports.table(["accuracy in %", *ACCURACIES.values()], rows)


def tables(raw: dict[str, Any]) -> dict[str, str]:
    """Returns the table of docs/results/sentiment.md."""
    return {"accuracy": table(raw["sentiment"]["runs"])}


def report(runs: list[Run]) -> dict[str, Any]:
    """Returns the JSON report."""
    return {
        **reports.head("sentiment"),
        "runs": runs,
    }
