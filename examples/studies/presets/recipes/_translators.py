"""Trains and measures translators of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_attention.datasets import translation
from keras_attention.losses import SmoothedCrossentropy
from keras_attention.models import Transformer
from keras_attention.presets.preprocessors import TranslationPreprocessor, sentences
from studies.presets import baselines
from studies.presets.recipes import _sentences as shared

RATE, BATCH = 3e-3, 128


def train(
    pairs: Sequence[translation.Pair],
    sizes: Sequence[int],
    settings: dict[str, Any],
    epochs: int,
    widths: Sequence[int],
    seed: int,
) -> Transformer:
    """Trains a Transformer on pairs of sentences.

    Args:
        pairs: the pairs. Those longer than the last width are left out.
        sizes: the maximum number of words of each language.
        settings: further arguments of `Transformer`.
        epochs: how often each pair is read.
        widths: the lengths to which batches are padded. The last one is the maximum
            number of words and marks, plus 2.
        seed: the seed of the network, of the batches and of the dropout.
    """
    keras.utils.set_random_seed(seed)
    source, target = (
        sentences.cased_vocabulary([pair[side] for pair in pairs], size)
        for side, size in enumerate(sizes)
    )
    inputs, labels = translation.vectorize(
        pairs, shared.Words(source), shared.Words(target)
    )
    longest = widths[-1] - 2
    short = (inputs["source"] > 0).sum(1) <= longest
    short &= (labels > 0).sum(1) <= longest + 1
    inputs = {name: array[short] for name, array in inputs.items()}
    batches = shared.batches(inputs, labels[short], BATCH, seed, widths)
    model = Transformer(len(source), len(target), **settings)
    loss = SmoothedCrossentropy(0.1)  # padding has weight 0
    shared.fit(model, batches, epochs, RATE, loss)
    model.preprocessor = TranslationPreprocessor(source, target, longest)
    return model


def measure(
    model: Any,
    pairs: Sequence[translation.Pair],
    count: int,
    known: Sequence[translation.Pair],
) -> dict[str, float]:
    """Returns the BLEU and the share of exact translations.

    Of a sentence with several translations in the data, each counts as right. Sentences
    that are too long for the preprocessor are left out. A sentence of unknown words,
    which the preprocessor refuses, has the translation "".

    Args:
        model: a translator with a `TranslationPreprocessor`.
        pairs: the pairs.
        count: the maximum number of sentences, at equal distances in the data.
        known: the training pairs, of which the baseline takes the nearest.
    """
    longest = model.preprocessor.max_words
    references: dict[str, list[str]] = {}
    for pair in pairs:
        if len(translation.tokenize(pair.source)) <= longest:
            references.setdefault(pair.source, []).append(pair.target)
    count = min(count, len(references))
    rows = np.linspace(0, len(references) - 1, count).round().astype(int)
    sources = [list(references)[row] for row in rows]
    with shared.unknown_words():
        readable = shared.readable(model.preprocessor, sources)
        found = model.translate([sources[i] for i in readable], max_length=longest + 8)
    written = [""] * count
    for i, text in zip(readable, found):
        written[i] = text
    wanted = [references[source] for source in sources]
    near = baselines.nearest_text([pair.source for pair in known], sources)
    figures: dict[str, float] = {}
    for name, texts in (("", written), ("baseline ", [known[n].target for n in near])):
        exact = [
            translation.tokenize(own) in map(translation.tokenize, others)
            for own, others in zip(texts, wanted)
        ]
        figures |= {
            f"{name}BLEU": round(shared.bleu(texts, wanted), 1),
            f"{name}exact %": round(100 * float(np.mean(exact)), 1),
        }
    return figures
