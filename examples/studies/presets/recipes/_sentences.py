"""What the recipes on sentences share: words, batches, training and scores."""

from __future__ import annotations

import collections
import contextlib
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import translation
from keras_attention.presets.preprocessors import sentences
from keras_attention.text.vocabulary import Vocabulary, tokenize
from studies.batches import Batches

MAX_WORDS = 16  # of a sentence; about 1 % of Tatoeba's are longer
WIDTHS = (8, MAX_WORDS + 2)  # of padded batches
TATOEBA = (
    "{} of Tatoeba, https://tatoeba.org (52,652 English and Dutch sentence pairs, in "
    "the file of 2020-11-22 from https://www.manythings.org/anki). The file's third "
    "column names the authors. The package contains no sentences."
)
LICENCE = "CC BY 2.0 FR (Tatoeba)"


def english(split: str) -> list[str]:
    """Returns the distinct English sentences of a split of Tatoeba, in order."""
    pairs = translation.load("tatoeba", split)
    return list(dict.fromkeys(pair.source for pair in pairs))


class Words:
    """Encodes sentences for `translation.vectorize`, as the preprocessors do."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def encode(self, text: str) -> list[int]:
        """Returns the index of each word."""
        words = sentences.words_of(text, self.vocabulary)
        return [self.vocabulary.index(word) for word in words]


def readable(tools: Any, texts: Sequence[str]) -> list[int]:
    """Returns the places of the texts that a preprocessor does not refuse."""
    found = []
    for place, text in enumerate(texts):
        try:
            tools.encode(text)
        except sentences.UnreadableTextError:
            continue
        found.append(place)
    return found


@contextlib.contextmanager
def unknown_words() -> Iterator[None]:
    """Allows unknown words in texts, as data to measure a network have them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sentences.UnknownWordsWarning)
        yield


def batches(
    inputs: Any,
    labels: np.ndarray,
    size: int,
    seed: int,
    widths: Sequence[int] = WIDTHS,
) -> Batches:
    """Returns batches of similar length, in a new order in each epoch."""
    return Batches(translation.buckets(inputs, labels, size, widths, seed))


def fit(
    model: Any, batches: Any, epochs: int, rate: float, loss: Any, warm: int = 300
) -> None:
    """Trains with Adam, a linear warm-up and a cosine decay of the learning rate."""
    steps = epochs * len(batches)
    warm = min(warm, steps // 2)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps - warm, warmup_target=rate, warmup_steps=warm
    )
    optimizer = keras.optimizers.Adam(schedule, beta_2=0.98, global_clipnorm=1.0)
    model.compile(optimizer, loss)
    model.fit(batches, epochs=epochs, shuffle=False, verbose=2)


def mean_loss(logits: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean of −log p of labels (N, T), without padding."""
    logits = logits.astype("float64")
    top = logits.max(-1, keepdims=True)
    total = np.log(np.exp(logits - top).sum(-1)) + top[..., 0]  # (N, T)
    own = np.take_along_axis(logits, labels[..., None], -1)[..., 0]
    return float((total - own)[labels > 0].mean())


def bleu(written: Sequence[str], wanted: Sequence[Sequence[str]]) -> float:
    """Returns the corpus BLEU in per cent, of lower-case words and marks.

    Args:
        written: translations.
        wanted: the references of each.

    Reference:
        Papineni et al., "BLEU: a method for automatic evaluation of machine
        translation" (2002), section 2.
    """
    right, total = np.zeros(4), np.zeros(4)
    length = closest = 0
    for text, references in zip(written, wanted, strict=True):
        words = tokenize(text)
        others = [tokenize(reference) for reference in references]
        length += len(words)
        closest += min((abs(len(o) - len(words)), len(o)) for o in others)[1]
        for n in range(4):
            counts = _grams(words, n + 1)
            most = collections.Counter[tuple[str, ...]]()
            for other in others:
                most |= _grams(other, n + 1)
            right[n] += (counts & most).total()
            total[n] += counts.total()
    if not right.all():
        return 0.0
    brevity = min(0.0, 1 - closest / length)
    return 100 * math.exp(brevity + np.log(right / total).mean())


def _grams(words: Sequence[str], n: int) -> collections.Counter[tuple[str, ...]]:
    return collections.Counter(zip(*(words[i:] for i in range(n))))
