"""Skip-gram: word vectors learnt from the surrounding words.

Shapes: B batch, P words per centre word (one positive and K negative samples) or per
row, S centre words per row, V vocabulary, D width.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import export
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.ops import similarity

Tensor = Any
# Special tokens such as "<pad>", which are not words.
_SPECIAL = re.compile(r"<.+>")


@export
class SkipGram(ConfiguredModel):
    """Skip-gram with negative sampling: predicts the words around a word.

        logit(o, c) = u_oᵀ v_c

    Each word has two vectors, v as the centre word and u as a context word. With
    `BinaryCrossentropy(from_logits=True)` and the labels of
    `keras_attention.datasets.words.SkipGrams`, the loss equals the loss of the paper,

        −log σ(u_oᵀ v_c) − Σ_k log σ(−u_kᵀ v_c),

    divided by 1 + K. Here o is the true context word, and the K words k are random
    negative samples. The vectors v are the final word vectors.

    word2vec takes one SGD step per pair of words. Here a step uses a batch of pairs.
    Adam with a learning rate that decays from about 0.005 to 0 gives equally good
    vectors in the same number of epochs.

    With `shared_negatives`, the S centre words of a row share its P context words,
    so the logits are products of matrices. Use it with `SkipGrams(...,
    shared_negatives=22)`, whose labels are weights and not 0 and 1, and with
    `keras_attention.losses.NegativeSamplingLoss`.

    Args:
        vocabulary_size: V.
        dim: D.
        words: the V words by index, such as `Vocabulary.tokens`. Tokens in angle
            brackets, such as "<pad>", do not count as words. Only `nearest` and
            `analogy` need `words`. They are saved with the model.
        shared_negatives: whether the S centre words of a row share its context words.

    Inputs: a dict of
        center: int32 (B,), or (B, S) with shared negatives.
        context: int32 (B, P), the true context word and the negative samples; with
            shared negatives, the words of the text and the negative samples.

    Returns:
        Logits (B, P), or (B, S, P) with shared negatives.

    Raises:
        ValueError: for sizes below 1, words that are not V distinct strings, or
            `shared_negatives` that is not a bool. Calls also raise it for ids in NumPy
            arrays that are below 0 or not below the number of ids, and `compile` for
            `BinaryCrossentropy` with shared negatives.

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

    id_sizes: ClassVar[dict[str, str]] = {
        "center": "vocabulary_size",
        "context": "vocabulary_size",
    }

    def __init__(
        self,
        vocabulary_size: int,
        dim: int = 100,
        words: Iterable[str] | None = None,
        shared_negatives: bool = False,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        positive("vocabulary_size", vocabulary_size)
        small = 0.5 / positive("dim", dim)
        if not isinstance(shared_negatives, bool):
            raise ValueError(
                "`shared_negatives` must be True or False; the number of negatives is "
                "an argument of `SkipGrams`. "
                f"Received: shared_negatives={shared_negatives!r}"
            )
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
        shape = (None,) if shared_negatives else ()
        center = keras.Input(shape, dtype="int32", name="center")  # (B,) or (B, S)
        context = keras.Input((None,), dtype="int32", name="context")  # (B, P)
        v, u = tables[0](center), tables[1](context)  # (B, D) or (B, S, D); (B, P, D)
        if shared_negatives:
            logits = ops.einsum("bsd,bpd->bsp", v, u)
        else:
            logits = ops.squeeze(ops.matmul(u, ops.expand_dims(v, -1)), -1)  # (B, P)
        super().__init__({"center": center, "context": context}, logits, locals())
        self.words = None if words is None else _checked(words, vocabulary_size)
        self._index = {word: i for i, word in enumerate(self.words or ())}
        # Never return rows of special tokens.
        self._hidden = np.array(
            [_SPECIAL.fullmatch(word) is not None for word in self.words or ()], bool
        )

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, **kwargs: Any
    ) -> None:
        known = isinstance(loss, (str, keras.losses.Loss))
        resolved = keras.losses.get(loss) if known else loss
        kinds = keras.losses.BinaryCrossentropy, keras.losses.binary_crossentropy
        if self.shared_negatives and (
            isinstance(resolved, kinds[0]) or resolved is kinds[1]
        ):
            raise ValueError(
                "`loss` must be a `NegativeSamplingLoss` with shared negatives, whose "
                f"labels are weights. Received: loss={loss!r}"
            )
        super().compile(optimizer, loss, **kwargs)

    @classmethod
    def from_vectors(cls, words: Iterable[str], vectors: np.ndarray) -> Self:
        """Creates a model from pretrained vectors, as read by `load_vectors`.

        The context vectors u are not trained yet.

        Args:
            words: V words.
            vectors: (V, D), one vector per word.

        Raises:
            ValueError: if the numbers of words and vectors differ.
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
        """Returns the vectors v of all words, (V, D) float32."""
        table = self.get_layer("center_embedding").embeddings
        return np.array(ops.convert_to_numpy(table), "float32")

    def nearest(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        """Finds the words with the most similar vectors.

        Args:
            word: one of the model's words.
            count: the maximum number of words to return.

        Returns:
            Words with their cosines, the nearest first, without the word itself.

        Raises:
            ValueError: if the word has no vector, the model was made without `words`,
                or the count is below 1.
        """
        (index,) = self._find(word)
        return self._around(self.vectors()[index], count, [index])

    def analogy(
        self, a: str, b: str, c: str, count: int = 1
    ) -> list[tuple[str, float]]:
        """Completes "a is to b as c is to …": *man*, *king*, *woman* give *queen*.

        Args:
            a: a word.
            b: the word that a is related to.
            c: the word to find the counterpart of.
            count: the maximum number of answers.

        Returns:
            Words with their cosines to b − a + c, the nearest first, without a, b and
            c.

        Raises:
            ValueError: as in `nearest`.
        """
        indices = self._find(a, b, c)
        corner = similarity.parallelogram(*self.vectors()[indices])
        return self._around(corner, count, indices)

    def _find(self, *words: str) -> list[int]:
        """Returns the indices of words."""
        if self.words is None:
            raise ValueError(
                "`words` must be given to `SkipGram`, the V words in the order of "
                "their indices, to look up a word. Received: words=None"
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
        self, query: Tensor, count: int, left_out: list[int]
    ) -> list[tuple[str, float]]:
        """Finds the words nearest to a vector (D,), except the given ones."""
        hidden = self._hidden.copy()
        hidden[left_out] = True
        count = min(positive("count", count), int((~hidden).sum()))
        if not count:
            return []
        cosines, rows = similarity.nearest_rows(query, self.vectors(), count, hidden)
        assert self.words is not None  # checked by _find
        return [
            (self.words[row], float(cosine))
            for row, cosine in zip(
                ops.convert_to_numpy(rows), ops.convert_to_numpy(cosines)
            )
        ]


def _checked(words: Iterable[str], count: int) -> tuple[str, ...]:
    """Returns the words; raises a ValueError unless they are `count` unique strings."""
    strings = (words,) if isinstance(words, str) else tuple(words)
    if len(strings) != count or len({*strings}) != count:
        raise ValueError(
            "`words` must be `vocabulary_size` distinct strings. Received: "
            f"vocabulary_size={count}, {len(strings)} words, {len({*strings})} distinct"
        )
    for word in strings:
        if not isinstance(word, str):
            raise ValueError(f"`words` must be strings. Received: {word!r} among them")
    return strings
