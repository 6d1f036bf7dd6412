"""The features and embeddings of stored sentences, by the layers of a `MemNN`.

Shapes: n sentences, L words, D width, F features; "·" denotes the features of a
sentence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.layers.memory_networks.fact_finder import FactFinder
from keras_attention.layers.memory_networks.sentence_encoder import SentenceEncoder
from keras_attention.layers.memory_networks.sentence_features import SentenceFeatures
from keras_attention.layers.memory_networks.word_responder import WordResponder

# Arguments of a `MemNN` under which a fact's features depend on its words alone.
ARGUMENTS = {
    *("vocabulary_size", "embedding_dim", "supports", "time", "adaptive", "ngrams"),
    *("buckets", "nonlinear", "hop_versions", "dtype", "name", "trainable"),
}
BLOCK = 2**14  # sentences embedded at a time


class SentenceKeys:
    """Embeds sentences as a `MemNN` does, as sums over the rows of their features.

    The rows are computed once, by the model's layer.

    Raises:
        ValueError: if the model has features other than words and n-grams.
    """

    def __init__(self, model: Any) -> None:
        check_features(model)
        self._model, self._may_differ = model, kernels.changes(weights_of(model))
        self._layer, self._finder = model.get_layer("I"), model.get_layer("O")
        self._rows = to_numpy(
            self._finder.candidate(np.arange(self._finder.features)[:, None])
        ).astype("float32", copy=False)  # (F, D)
        self.fingerprint = fingerprint(model)

    def check(self) -> None:
        """Raises a ValueError if the weights that embed facts have changed.

        They are compared only if the backend's tensors tell that they may have changed.
        """
        if not self._may_differ():
            return
        may_differ = kernels.changes(weights_of(self._model))
        if fingerprint(self._model) != self.fingerprint:
            raise ValueError(
                "`model` was trained since the memory was made: `model.remember` makes "
                f"the memory anew. Received: model={self._model!r}"
            )
        self._may_differ = may_differ

    def features(self, words: np.ndarray) -> np.ndarray:
        """Returns the features (n, ·) of sentences (n, L)."""
        if self._layer.ngrams == 1:
            return words
        return padded_call(self._layer, words.astype("int32"))

    def embed(self, words: np.ndarray) -> np.ndarray:
        """Returns the embeddings of sentences (n, L), float32 (n, D)."""
        keys = np.zeros((len(words), self._rows.shape[1]), "float32")
        for start in range(0, len(words), BLOCK):
            here = slice(start, start + BLOCK)
            keys[here] = self._mapped(
                summed(self._rows, self.features(words[here])),
            )
        return keys

    def nothing(self) -> np.ndarray:
        """Returns the embedding of m_∅, float32 (D,)."""
        return self._mapped(self._rows[self._layer.size][None])[0]

    def similarity(
        self, query: np.ndarray, number: int
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Returns a function that computes s_O(x, mᵢ), float32 (n,).

        `query`, float32 (D,), is the embedding of x; `number` tells for how many
        sentences the function will be called.
        """
        if self._finder.map is not None:
            return lambda words: self.embed(words) @ query
        if len(self._rows) <= 64 * number:
            # Without a second layer, each feature adds a number of its own.
            scores = self._rows @ query  # (F,)
            return lambda words: summed(scores, self.features(words))

        def of_few(words: np.ndarray) -> np.ndarray:
            features = self.features(words)
            used, place = np.unique(features, return_inverse=True)
            scores = self._rows[used] @ query
            return summed(scores, place.reshape(features.shape))

        return of_few

    def _mapped(self, sums: np.ndarray) -> np.ndarray:
        if self._finder.map is None:
            return sums
        return padded_call(self._finder.embed, sums).astype("float32", copy=False)


def summed(rows: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Sums rows (F, ...) over the features (n, ·): (n, ...)."""
    total = np.zeros((len(features), *rows.shape[1:]), "float32")
    for column in features.T:
        total += rows[column]
    return total


def padded_call(function: Callable[[Any], Any], rows: np.ndarray) -> np.ndarray:
    """Calls a function of the backend with few different numbers of rows.

    A backend compiles operations for each shape.
    """
    size = 2 ** max(len(rows) - 1, 15).bit_length()
    padding = ((0, size - len(rows)), *((0, 0) for _ in rows.shape[1:]))
    return to_numpy(function(np.pad(rows, padding)))[: len(rows)]


def to_numpy(tensor: Any) -> np.ndarray:
    """Converts a tensor to NumPy; half precision becomes float32."""
    array = ops.convert_to_numpy(tensor)
    return array.astype("float32") if array.dtype.itemsize == 2 else array


def fingerprint(model: Any) -> str:
    """Returns a digest of a `MemNN`'s fact embeddings, 64 hexadecimal digits.

    The digest is equal on all backends and changes with the weights.
    """
    digest = hashlib.sha256()
    for weight in weights_of(model):
        array = np.ascontiguousarray(to_numpy(weight.value))
        digest.update(f"{array.dtype} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()


def weights_of(model: Any) -> list[Any]:
    """Returns the variables of a `MemNN` that embed facts."""
    finder = model.get_layer("O")
    parts = (finder.candidate, finder.map)
    return [weight for part in parts if part is not None for weight in part.weights]


def check_features(model: Any) -> None:
    """Raises a ValueError if a fact's features depend on more than its words."""
    layers = [model.get_layer(name) for name in "IOR"]
    types = SentenceFeatures, FactFinder, WordResponder
    others = {
        name: value
        for name, value in model.get_config().items()
        if name not in ARGUMENTS and value
    }
    if others or any(type(layer) is not t for layer, t in zip(layers, types)):
        raise ValueError(
            "`model` must be a MemNN with features of words and n-grams only: a large "
            "memory stores nothing else. Received: model with "
            + (", ".join(f"{n}={v!r}" for n, v in others.items()) or repr(layers))
        )
    encoder = layers[1].candidate
    if type(encoder) is not SentenceEncoder or encoder.encoding != "bag":
        raise ValueError(
            "`model` must embed a fact as a sum over its features. "
            f"Received: candidate={encoder!r}"
        )
