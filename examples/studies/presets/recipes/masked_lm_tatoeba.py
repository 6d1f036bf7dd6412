"""MaskedLM on English sentences."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from keras_attention.models import MaskedLM
from keras_attention.presets.preprocessors import BlankPreprocessor, sentences
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
    "block": {"norm_first": True},
}
SIZE = 3200  # words
EPOCHS, RATE, BATCH = 8, 4e-3, 128
HIDDEN = 2  # words of a sentence that are hidden in training; 1 if it has only 1


def train(seed: int) -> Any:
    """Trains on the sentences of at most 16 words, in about 3 minutes of one core."""
    keras.utils.set_random_seed(seed)
    texts = shared.english("train")
    vocabulary = sentences.cased_vocabulary(texts, SIZE)
    batches = Batches(_rows(texts, vocabulary), vocabulary, seed)
    model = MaskedLM(len(vocabulary) + 1, **MODEL)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    shared.fit(model, batches, EPOCHS, RATE, loss)
    model.preprocessor = BlankPreprocessor(vocabulary, shared.MAX_WORDS)
    return model


class Batches(keras.utils.PyDataset):
    """Sentences of similar length, in each of which other words are hidden each time.

    Of the hidden words, 80 % become the mask token and 10 % a random word, as in BERT.
    """

    def __init__(self, tokens: np.ndarray, vocabulary: Any, seed: int) -> None:
        super().__init__()
        inputs = {"tokens": tokens}
        self._batches = shared.batches(inputs, tokens, BATCH, seed)
        self._is_word = is_word(vocabulary)
        self._rng = np.random.default_rng(seed)

    def __len__(self) -> int:
        return len(self._batches)

    def on_epoch_end(self) -> None:
        self._batches.on_epoch_end()

    def __getitem__(self, index: int) -> Any:
        tokens = self._batches[index][0]["tokens"].copy()  # (B, T)
        order = self._rng.random(tokens.shape) + self._is_word[tokens]  # words last
        places = order.argsort(1)[:, ::-1][:, :HIDDEN].astype("int32")  # (B, P)
        labels = np.take_along_axis(tokens, places, 1)
        weights = self._is_word[labels].astype("float32")
        chances = self._rng.random(labels.shape)
        size = len(self._is_word) - 1  # without the mask token
        others = self._rng.integers(END + 1, size, labels.shape)
        new = np.where(chances < 0.8, size, np.where(chances < 0.9, others, labels))
        new = np.where(weights > 0, new, labels)
        np.put_along_axis(tokens, places, new.astype("int32"), 1)
        return {"tokens": tokens, "mask_positions": places}, labels, weights


def measure(model: Any, split: str = "test") -> dict[str, float]:
    """Hides one known word of each sentence. Returns how often it is found."""
    vocabulary = model.preprocessor.vocabulary
    tokens = _rows(shared.english(split), vocabulary)
    words = is_word(vocabulary)[tokens]  # (N, T)
    tokens, words = tokens[words.any(1)], words[words.any(1)]
    order = np.random.default_rng(0).random(tokens.shape) + words
    places = order.argmax(1)[:, None].astype("int32")  # (N, 1)
    labels = np.take_along_axis(tokens, places, 1)
    np.put_along_axis(tokens, places, model.preprocessor.mask_token_id, 1)
    inputs = {"tokens": tokens, "mask_positions": places}
    logits = model.predict(inputs, batch_size=256, verbose=0)[:, 0]  # (N, V)
    logits[:, : END + 1] = -np.inf
    top = np.argsort(-logits, axis=1)[:, :5]
    right = top == labels
    known = _rows(shared.english("train"), vocabulary)
    score = baselines.between(known, len(vocabulary) + 1)
    rows, place = np.arange(len(tokens)), places[:, 0]
    before, after = tokens[rows, place - 1], tokens[rows, place + 1]
    guess = score[before] + score[:, after].T  # (N, V)
    guess[:, : END + 1] = -np.inf
    plain = np.argsort(-guess, axis=1)[:, :5] == labels
    return {
        "right %": round(100 * float(right[:, 0].mean()), 1),
        "among five %": round(100 * float(right.any(1).mean()), 1),
        "baseline right %": round(100 * float(plain[:, 0].mean()), 1),
        "baseline among five %": round(100 * float(plain.any(1).mean()), 1),
    }


def is_word(vocabulary: Any) -> np.ndarray:
    """Returns for each token whether it is a word and no mark, (V + 1,)."""
    special = [False] * (END + 1)
    words = [token[0].isalnum() for token in vocabulary.tokens[END + 1 :]]
    return np.array([*special, *words, False])


def _rows(texts: list[str], vocabulary: Any) -> np.ndarray:
    """Returns sentences with the start and the end token, (N, T)."""
    rows = [shared.Words(vocabulary).encode(text) for text in texts]
    rows = [[START, *row, END] for row in rows if len(row) <= shared.MAX_WORDS]
    return sentences.pad(rows)


RECIPE = Recipe(
    what="Finds words for a blank in a short English sentence.",
    data=shared.TATOEBA.format("The English sentences")
    + " A twentieth of the sentences is the test set.",
    licence=shared.LICENCE,
    limits="Everyday sentences of at most 16 tokens (words and punctuation marks), "
    "made of the 3,200 most frequent words. The network finds words that fit the "
    "grammar and the words around the blank; it has no knowledge. The figure *among "
    "five* counts the blanks whose word is among its first five.",
    baseline="counts of pairs of neighbouring words, applied to the words before and "
    "after the blank",
    use='model.fill("The cat ___ under the table.")',
    train=train,
    measure=measure,
)
