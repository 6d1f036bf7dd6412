"""Learns word vectors with this package's `SkipGram` and gensim's Word2Vec."""

from __future__ import annotations

import importlib
import time
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attention.datasets import DataNotFoundError, translation, words
from keras_attention.losses import NegativeSamplingLoss
from keras_attention.models import SkipGram
from studies.command_line import UsageError

# Shared settings.
SHARED: dict[str, Any] = {
    "dim": 100,
    "window": 5,
    "negatives": 5,
    "subsample": 1e-3,
    "power": 0.75,
    "min_count": 5,
    "epochs": 10,
}
# gensim trains on single pairs. They need another learning rate than batches. Ours were
# chosen by the loss on captions held back from the training captions.
OURS: dict[str, Any] = {
    "optimizer": "Adam",
    "rate": 0.01,
    "batch_size": 2048,
    "shared_negatives": 22,
}
GENSIM: dict[str, Any] = {"optimizer": "SGD", "rate": 0.025}


class Learnt(NamedTuple):
    """Vectors and their training cost.

    Attributes:
        words: V words.
        vectors: (V, D) float32.
        seconds: wall-clock time of the training.
        cpu_seconds: CPU time of all threads.
        passed: the number of processed words, including those dropped by subsampling.
    """

    words: list[str]
    vectors: np.ndarray
    seconds: float
    cpu_seconds: float
    passed: int


def sentences() -> list[str]:
    """Returns the English training captions of Multi30k."""
    try:
        return [pair.source for pair in translation.load("multi30k", "train")]
    except DataNotFoundError as error:
        raise UsageError(str(error)) from error


def ours(texts: list[str], settings: dict[str, Any], seed: int) -> Learnt:
    """Trains `SkipGram` with Adam. The learning rate decays linearly to 0."""
    keras.utils.set_random_seed(seed)
    count = settings["min_count"]
    vocabulary = words.Vocabulary.from_sentences(texts, min_count=count)
    pairs = words.SkipGrams(
        texts,
        vocabulary,
        **{
            name: settings[name]
            for name in (
                "window",
                "negatives",
                "subsample",
                "power",
                "batch_size",
                "shared_negatives",
            )
        },
        seed=seed,
    )
    model = SkipGram(len(vocabulary), settings["dim"], shared_negatives=True)
    steps = settings["epochs"] * len(pairs)
    rate = keras.optimizers.schedules.PolynomialDecay(settings["rate"], steps, 0.0)
    model.compile(keras.optimizers.Adam(rate), NegativeSamplingLoss())
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(
        iter(pairs),
        steps_per_epoch=len(pairs),
        epochs=settings["epochs"],
        shuffle=False,
        verbose=0,
    )
    took = time.perf_counter() - start, time.process_time() - cpu
    first = len(translation.Vocabulary(()))  # without the special tokens
    names = list(vocabulary.tokens[first:])
    passed = settings["epochs"] * pairs.words
    return Learnt(names, model.vectors()[first:], *took, passed)


def gensims(texts: list[str], settings: dict[str, Any], seed: int) -> Learnt:
    """Trains gensim's `Word2Vec` in one thread, one pair at a time."""
    try:
        gensim = importlib.import_module("gensim.models")
    except ImportError as error:
        raise UsageError(
            "gensim's Word2Vec is the peer here: python -m pip install "
            f'"keras-attention-family[words]", or leave it out with --systems ours. '
            f"Received: {error}"
        ) from error
    lines = [words.tokenize(text) for text in texts]
    model = gensim.Word2Vec(
        vector_size=settings["dim"],
        window=settings["window"],
        negative=settings["negatives"],
        sample=settings["subsample"],
        ns_exponent=settings["power"],
        min_count=settings["min_count"],
        alpha=settings["rate"],
        epochs=settings["epochs"],
        sg=1,
        workers=1,
        seed=seed + 1,  # gensim does not accept 0 as a seed
    )
    model.build_vocab(lines)
    start, cpu = time.perf_counter(), time.process_time()
    model.train(lines, total_examples=len(lines), epochs=settings["epochs"])
    took = time.perf_counter() - start, time.process_time() - cpu
    kept = model.wv.key_to_index
    passed = settings["epochs"] * sum(word in kept for line in lines for word in line)
    return Learnt(list(model.wv.index_to_key), model.wv.vectors, *took, passed)
