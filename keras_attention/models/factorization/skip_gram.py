"""Words as vectors, learnt from the words around them: skip-gram.

Shapes: B batch, P words asked about at a time (one that was there and K that were
not), V vocabulary, D width.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import only_of_models, positive
from keras_attention.layers.base.serialization import export
from keras_attention.models.base import quantization
from keras_attention.ops import similarity

Tensor = Any
# Special tokens such as "<pad>" stand among words, and are none.
_SPECIAL = re.compile(r"<.+>")


@export
class SkipGram(keras.Model):
    """Skip-gram with negative sampling: which words stand around a word?

        logit(o, c) = u_oᵀ v_c

    Each word has two vectors, v as the word in the centre and u as a word around one.
    With `BinaryCrossentropy(from_logits=True)` and the labels of
    `keras_attention.datasets.words.SkipGrams` the loss is the paper's,

        −log σ(u_oᵀ v_c) − Σ_k log σ(−u_kᵀ v_c),

    divided by 1 + K; o was there, the K words k were drawn at random. The vectors v are
    what is wanted in the end.

    word2vec takes a step of plain SGD for each pair of words. Here a step is a batch of
    pairs, for which Adam, with a rate of about 0.005 that falls to 0, does as well in
    as few epochs.

    Args:
        vocabulary_size: V.
        dim: D.
        words: the V words by index, such as `Vocabulary.tokens`; what stands in angle
            brackets, as "<pad>" does, is no word. Needed by `nearest` and `analogy`
            alone; kept when the model is saved.

    Inputs: a dict of
        center: int32 (B,).
        context: int32 (B, P), the word that was there and those that were not.

    Returns:
        Logits (B, P).

    Raises:
        ValueError: for sizes below 1, or words that are not V distinct strings.

    Example:

    >>> import keras
    >>> from keras_attention.datasets import words
    >>> from keras_attention.models import SkipGram
    >>> texts = ["a red apple", "a green apple", "a red car", "a green car"] * 50
    >>> vocabulary = words.Vocabulary.from_sentences(texts)
    >>> pairs = words.SkipGrams(texts, vocabulary, window=2, batch_size=64)
    >>> model = SkipGram(len(vocabulary), dim=8, words=vocabulary.tokens)
    >>> loss = keras.losses.BinaryCrossentropy(from_logits=True)
    >>> model.compile(keras.optimizers.Adam(0.05), loss)
    >>> history = model.fit(
    ...     iter(pairs), steps_per_epoch=len(pairs), shuffle=False, verbose=0
    ... )
    >>> len(model.nearest("apple", count=3))
    3

    Reference:
        Mikolov, Sutskever, Chen, Corrado & Dean, "Distributed representations of words
        and phrases and their compositionality" (2013), equation 4.
    """

    def __init__(
        self,
        vocabulary_size: int,
        dim: int = 100,
        words: Iterable[str] | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        only_of_models("SkipGram", kwargs)
        positive("vocabulary_size", vocabulary_size)
        small = 0.5 / positive("dim", dim)
        tables = [
            keras.layers.Embedding(
                vocabulary_size,
                dim,
                embeddings_initializer=keras.initializers.RandomUniform(-small, small),
                dtype=dtype,
                name=name,
            )
            for name in ("center_embedding", "context_embedding")
        ]
        center = keras.Input((), dtype="int32", name="center")  # (B,)
        context = keras.Input((None,), dtype="int32", name="context")  # (B, P)
        v = ops.expand_dims(tables[0](center), -1)  # (B, D, 1)
        u = tables[1](context)  # (B, P, D)
        logits = ops.squeeze(ops.matmul(u, v), -1)  # (B, P)
        super().__init__(
            inputs={"center": center, "context": context}, outputs=logits, **kwargs
        )
        if dtype is not None:
            self.dtype_policy = keras.dtype_policies.get(dtype)
        self.vocabulary_size = vocabulary_size
        self.dim = dim
        self.words = None if words is None else _checked(words, vocabulary_size)
        self._index = {word: i for i, word in enumerate(self.words or ())}
        # Rows that are no words are never found.
        self._hidden = np.array(
            [_SPECIAL.fullmatch(word) is not None for word in self.words or ()], bool
        )

    @classmethod
    def from_vectors(cls, words: Iterable[str], vectors: np.ndarray) -> Self:
        """A model of vectors that were learnt elsewhere, as `load_vectors` reads them.

        The words around a word are still to be learnt.

        Args:
            words: V words.
            vectors: (V, D), one for each.

        Raises:
            ValueError: if there is not one vector a word.
        """
        words, vectors = tuple(words), np.asarray(vectors)
        if vectors.ndim != 2 or len(vectors) != len(words):
            raise ValueError(
                "`vectors` must have a row for each word. Received: "
                f"vectors.shape={vectors.shape}, {len(words)} words"
            )
        count, dim = vectors.shape
        model = cls(count, dim, words)
        model.get_layer("center_embedding").embeddings.assign(vectors)
        return model

    def vectors(self) -> np.ndarray:
        """The vectors v of all words, (V, D) float32."""
        table = self.get_layer("center_embedding").embeddings
        return np.array(ops.convert_to_numpy(table), "float32")

    def nearest(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        """The words whose vectors are most alike to a word's.

        Args:
            word: one of the model's words.
            count: how many are wanted; fewer come if there are not as many.

        Returns:
            Words with their cosines, the nearest first, without the word itself.

        Raises:
            ValueError: if the word has no vector, the model was made without `words`,
                or the count is below 1.
        """
        (own,) = self._find(word)
        return self._around(self.vectors()[own], count, [own])

    def analogy(
        self, a: str, b: str, c: str, count: int = 1
    ) -> list[tuple[str, float]]:
        """What c is to, as a is to b: of *man*, *king* and *woman* the *queen*.

        Args:
            a: a word.
            b: what a is to.
            c: another word.
            count: how many answers are wanted; fewer come if there are not as many.

        Returns:
            Words with their cosines to b − a + c, the nearest first; none of the three.

        Raises:
            ValueError: as of `nearest`.
        """
        given = self._find(a, b, c)
        corner = similarity.parallelogram(*self.vectors()[given])
        return self._around(corner, count, given)

    def _find(self, *words: str) -> list[int]:
        """The indices of words."""
        if self.words is None:
            raise ValueError(
                "`words` must be given to `SkipGram`, the V words by index, before "
                "any can be looked up. Received: words=None"
            )
        for word in words:
            index = self._index.get(word)
            if index is None or self._hidden[index]:
                raise ValueError(
                    "The word must be one of the model's "
                    f"{(~self._hidden).sum()} words. There is no vector of: {word!r}"
                )
        return [self._index[word] for word in words]

    def _around(
        self, query: Tensor, count: int, given: list[int]
    ) -> list[tuple[str, float]]:
        """The words around a vector (D,), but for those that were given."""
        hidden = self._hidden.copy()
        hidden[given] = True
        count = min(positive("count", count), int((~hidden).sum()))
        if not count:
            return []
        cosines, rows = similarity.nearest_rows(query, self.vectors(), count, hidden)
        assert self.words is not None  # _find has looked
        return [
            (self.words[row], float(cosine))
            for row, cosine in zip(
                ops.convert_to_numpy(rows), ops.convert_to_numpy(cosines)
            )
        ]

    def get_config(self) -> dict[str, Any]:
        config = {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "vocabulary_size": self.vocabulary_size,
            "dim": self.dim,
            "words": None if self.words is None else list(self.words),
        }
        return quantization.write(self, config)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        return quantization.rebuild(cls, config, dict)


def _checked(words: Iterable[str], count: int) -> tuple[str, ...]:
    """Words by index, or a ValueError where they are not that many, or not distinct."""
    found = (words,) if isinstance(words, str) else tuple(words)
    if len(found) != count or len({*found}) != count:
        raise ValueError(
            "`words` must be `vocabulary_size` distinct strings. Received: "
            f"vocabulary_size={count}, {len(found)} words, {len({*found})} distinct"
        )
    for word in found:
        if not isinstance(word, str):
            raise ValueError(f"`words` must be strings. Received: {word!r} among them")
    return found
