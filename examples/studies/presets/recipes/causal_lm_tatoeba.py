"""CausalLM on English sentences."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from keras_attention.models import CausalLM
from keras_attention.presets.preprocessors import CompletionPreprocessor, sentences
from keras_attention.text.vocabulary import END, START
from studies.presets import baselines
from studies.presets.recipe import Recipe
from studies.presets.recipes import _sentences as shared

MODEL: dict[str, Any] = {
    "num_layers": 2,
    "dim": 64,
    "num_heads": 4,
    "intermediate_dim": 256,
    "dropout": 0.1,
    "position": "rotary",
}
SIZE = 3200  # words
EPOCHS, RATE, BATCH = 6, 4e-3, 128


def train(seed: int) -> Any:
    """Trains on the sentences of at most 16 words, in about 3 minutes of one core."""
    keras.utils.set_random_seed(seed)
    texts = shared.english("train")
    vocabulary = sentences.cased_vocabulary(texts, SIZE)
    inputs, labels = _vectors(texts, vocabulary)
    batches = shared.batches(inputs, labels, BATCH, seed)
    model = CausalLM(len(vocabulary), **MODEL)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    shared.fit(model, batches, EPOCHS, RATE, loss)  # padding has weight 0
    model.preprocessor = CompletionPreprocessor(vocabulary, shared.MAX_WORDS)
    return model


def measure(model: Any, split: str = "test") -> dict[str, float]:
    """Returns the perplexity of a word or mark, the end of a sentence included."""
    inputs, labels = _vectors(shared.english(split), model.preprocessor.vocabulary)
    losses, counts = [], []
    for start in range(0, len(labels), 256):
        part = labels[start : start + 256]
        logits = model.predict_on_batch({"tokens": inputs["tokens"][start:][:256]})
        losses.append(shared.mean_loss(logits, part))
        counts.append((part > 0).sum())
    loss = np.average(losses, weights=counts)
    known, after = _vectors(shared.english("train"), model.preprocessor.vocabulary)
    size = len(model.preprocessor.vocabulary)
    grams = baselines.NGrams(_sequences(known["tokens"], after), size)
    plain = [
        np.log(grams.probability(row[max(i - 2, 0) : i], row[i]))
        for row in _sequences(inputs["tokens"], labels)
        for i in range(1, len(row))
    ]
    return {
        "perplexity": round(float(np.exp(loss)), 1),
        "baseline perplexity": round(float(np.exp(-np.mean(plain))), 1),
    }


def _sequences(tokens: np.ndarray, labels: np.ndarray) -> list[list[int]]:
    """Returns each sentence from its start token to its end token."""
    lengths = (labels > 0).sum(1)
    return [
        [int(row[0]), *after[:length].tolist()]
        for row, after, length in zip(tokens, labels, lengths)
    ]


def _vectors(texts: list[str], vocabulary: Any) -> tuple[dict, np.ndarray]:
    """Returns the tokens (N, T) and the tokens that follow them, (N, T)."""
    rows = [shared.Words(vocabulary).encode(text) for text in texts]
    rows = [row for row in rows if len(row) <= shared.MAX_WORDS]
    tokens = sentences.pad([[START, *row] for row in rows])
    labels = sentences.pad([[*row, END] for row in rows])
    return {"tokens": tokens}, labels


RECIPE = Recipe(
    what="Continues the beginning of a short English sentence.",
    data=shared.TATOEBA.format("The English sentences")
    + " A twentieth of the sentences is the test set.",
    licence=shared.LICENCE,
    limits="Everyday sentences of at most 16 tokens (words and punctuation marks), "
    "made of the 3,200 most frequent words. In the perplexity, all other words count "
    "as one word. The network has learned grammar and some common sense within a "
    "sentence, but no knowledge.",
    baseline="counts of three words in a row, interpolated with counts of two words "
    "and of one word",
    use='model.complete("I would like to")',
    train=train,
    measure=measure,
)
