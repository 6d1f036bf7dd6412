"""Trains one translator on Multi30k, translates the test set and computes BLEU.

Shapes: N pairs, B batch, S source subwords, T target subwords.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attention.datasets import translation
from keras_attention.models import Seq2Seq
from keras_attention.samplers import BeamSampler, ExcludingSampler, get
from studies.batches import Batches as Buckets
from studies.batches import differ_first

SAMPLERS = ("greedy", "beam")
MODEL: dict[str, Any] = {
    "cell": "gru",
    "units": 256,
    "embedding_dim": 256,
    "dropout": 0.3,
}
TRAINING: dict[str, Any] = {
    "optimizer": "Adam",
    "rate": 0.002,
    "decay": "cosine",
    "clipnorm": 1.0,
    "batch_size": 64,
    "epochs": 6,
    "subwords": 4000,
    "longest": 40,  # maximum number of subwords of a training pair
}
WIDTHS = (12, 16, 20, 28)  # widths of padded batches, besides the maximum
GENERATED: dict[str, Any] = {
    "together": 100,
    "max_length": 64,
    "num_beams": 5,
    "length_penalty": 1.0,
    "excluded": [1],  # the unknown piece
}


class Data(NamedTuple):
    """The pairs of each split, and the subword vocabularies of both languages."""

    pairs: dict[str, list[translation.Pair]]
    source: Any  # a `text.Subwords`
    target: Any

    def texts(self, split: str) -> tuple[list[str], list[str]]:
        """Returns the source texts and the target texts of a split."""
        pairs = self.pairs[split]
        return [pair.source for pair in pairs], [pair.target for pair in pairs]


def data(languages: Sequence[str], subwords: int, most: int | None = None) -> Data:
    """Loads Multi30k and learns subwords from its training pairs.

    Args:
        languages: source and target, ("en", "de") or ("de", "en").
        subwords: the number of subwords per language.
        most: the maximum number of training pairs.
    """
    from keras_attention.text import Subwords  # imports TensorFlow Text only here

    source, target = languages
    pairs = {
        split: translation.load("multi30k", split, source, target)
        for split in ("train", "valid", "test")
    }
    vocabularies = [
        Subwords.from_sentences([pair[side] for pair in pairs["train"]], size=subwords)
        for side in (0, 1)
    ]
    pairs["train"] = pairs["train"][:most]
    return Data(pairs, *vocabularies)


class Batches(Buckets):
    """The buckets of a split as a data set for `fit`. Each epoch has a new order."""

    def __init__(self, buckets: translation.Buckets) -> None:
        super().__init__(buckets)
        self._arrange()

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(self.order[index])

    def on_epoch_end(self) -> None:
        super().on_epoch_end()
        self._arrange()

    def _arrange(self) -> None:
        self.order = list(range(len(self.buckets)))
        differ_first(self.order, lambda i: self.buckets[i][1].shape[1])


def learn(
    data: Data, attention: str | None, seed: int, settings: dict[str, Any]
) -> tuple[Seq2Seq, dict[str, Any]]:
    """Trains a translator. Returns the translator and statistics of its training.

    Args:
        data: the training data.
        attention: "bahdanau", "luong" or None.
        seed: the seed of the network and of the batches.
        settings: `MODEL` and `TRAINING`, and "source", the order of the source words:
            "forward", "reversed" or "doubled".
    """
    keras.utils.set_random_seed(seed)
    model = Seq2Seq(
        len(data.source),
        len(data.target),
        attention=attention,
        **{name: settings[name] for name in MODEL},
    )
    train, valid = (
        batches(data, split, settings, seed) for split in ("train", "valid")
    )
    steps = settings["epochs"] * len(train)
    rate = keras.optimizers.schedules.CosineDecay(settings["rate"], steps)
    optimizer = keras.optimizers.Adam(rate, global_clipnorm=settings["clipnorm"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss)  # buckets give padded labels weight 0
    start = time.perf_counter()
    history = model.fit(train, epochs=settings["epochs"], verbose=2, shuffle=False)
    seconds = time.perf_counter() - start
    return model, {
        "parameters": model.count_params(),
        "steps": steps,
        "fit_seconds": round(seconds, 1),
        "loss": round(history.history["loss"][-1], 3),
        "valid_loss": round(float(model.evaluate(valid, verbose=0)), 3),
    }


def translate(
    model: Any, data: Data, texts: Sequence[str], sampler: str, order: str
) -> list[str]:
    """Translates texts in batches of texts with similar lengths."""
    chosen: Any = sampler
    if isinstance(model, keras.Model):  # the model of torch is greedy
        chosen = _sampler(sampler)
    sources = [_entered(data.source.encode(text), order) for text in texts]
    written = [""] * len(texts)
    by_length = np.argsort([len(source) for source in sources], kind="stable")
    size = GENERATED["together"]
    for start in range(0, len(texts), size):
        rows = by_length[start : start + size]
        batch = np.zeros((size, max(1, *(len(sources[i]) for i in rows))), "int32")
        batch[:, 0] = 1  # padding rows of the last batch
        for row, i in zip(batch, rows):
            row[: len(sources[i])] = sources[i]
        tokens = model.generate(batch, GENERATED["max_length"], chosen)
        for row, i in zip(tokens, rows):
            written[i] = data.target.decode(row)
    return written


def bleu(written: Sequence[str], wanted: Sequence[str]) -> tuple[float, str]:
    """Returns the corpus BLEU in per cent, and sacrebleu's signature."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    score = metric.corpus_score(list(written), [list(wanted)])
    return float(score.score), str(metric.get_signature())


def scores(
    model: Any,
    data: Data,
    split: str,
    order: str,
    samplers: Sequence[str] = SAMPLERS,
) -> tuple[dict[str, float], dict[str, Any]]:
    """Returns the BLEU of each sampler, and its run times with the signature."""
    sources, wanted = data.texts(split)
    found: dict[str, float] = {}
    about: dict[str, Any] = {}
    for sampler in samplers:
        start = time.perf_counter()
        written = translate(model, data, sources, sampler, order)
        about[f"{sampler}_seconds"] = round(time.perf_counter() - start, 1)
        score, signature = bleu(written, wanted)
        found[sampler] = round(score, 2)
        about["signature"] = signature
    return found, about


def batches(data: Data, split: str, settings: dict[str, Any], seed: int) -> Batches:
    """Returns the buckets of a split, without pairs that are too long."""
    order, longest = settings["source"], settings["longest"]
    inputs, labels = translation.vectorize(
        data.pairs[split],
        data.source,
        data.target,
        reverse_source=order == "reversed",
        double_source=order == "doubled",
    )
    reach = longest * (2 if order == "doubled" else 1)
    short = (inputs["source"] != 0).sum(1) <= reach
    short &= (labels != 0).sum(1) <= longest
    inputs = {name: array[short] for name, array in inputs.items()}
    widths = [width for width in (*WIDTHS, longest) if width <= longest]
    widths = [width * reach // longest for width in widths]
    buckets = translation.buckets(
        inputs, labels[short], settings["batch_size"], widths, seed
    )
    return Batches(buckets)


def _sampler(name: str) -> ExcludingSampler:
    """Creates a sampler that does not write the unknown piece."""
    beam = BeamSampler(
        GENERATED["num_beams"], length_penalty=GENERATED["length_penalty"]
    )
    sampler = beam if name == "beam" else get(name)
    return ExcludingSampler(sampler, GENERATED["excluded"])


def _entered(ids: list[int], order: str) -> list[int]:
    """Returns the ids of a source text in the order used in training."""
    return ids[::-1] if order == "reversed" else ids * (1 + (order == "doubled"))
