"""I and G of a memory network: features of sentences, and records of a memory.

Shapes: B batch, M memory slots, L words, N new words. "·" is the number of features of
a sentence or of fields of a record.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import natural, positive
from keras_attention.layers.base.checked import check_ids
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics import masks

Tensor = Any


@export
class SentenceFeatures(Configured, keras.layers.Layer):
    """I, the input feature map: represents a sentence by its words and n-grams.

    The feature of a word is its token. The features of n-grams of two or more words
    come after the features of words. A hash maps each n-gram to one of `buckets`
    features:

        h(w₁ … wₙ) = (h(w₁ … wₙ₋₁) · p + wₙ) mod buckets,  h(w₁) = w₁ mod buckets

    where p is the smallest integer ≥ `vocabulary_size` that is coprime to `buckets`. If
    p · V ≤ buckets, different pairs of words have different features. The layer has no
    weights.

    Args:
        vocabulary_size: V, the number of different tokens, including padding.
        ngrams: the largest number of words in an n-gram; 1 for a bag of words.
        buckets: the number of n-gram features.
        new_words: the number of ids from V on, which stand for words without features.

    Call arguments:
        inputs: integers (..., L); token 0 is padding.

    Returns:
        int32 (..., L · ngrams), feature indices below `size`; 0 is padding. New word n,
        with the id V + n, becomes `size` + 1 + n. (Index `size` is free for the feature
        of m_∅, see `MemoryWriter`.) An n-gram that contains a new word has no feature.

    Raises:
        ValueError: if a size is below 1, or V · buckets does not fit into int32.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import SentenceFeatures
    >>> features = SentenceFeatures(vocabulary_size=5, ngrams=2, buckets=100)
    >>> np.asarray(features(np.array([[1, 4, 0]]))).tolist()
    [[1, 4, 0, 0, 16, 0]]

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.1; n-grams: Weston
        et al., "Towards AI-complete question answering" (2015), section 5.
    """

    id_sizes: ClassVar[Any] = {"inputs": "num_ids"}
    input_ranks: ClassVar[Any] = {"inputs": (1, 9)}

    def __init__(
        self,
        vocabulary_size: int,
        ngrams: int = 1,
        buckets: int = 2003,
        new_words: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = positive("vocabulary_size", vocabulary_size)
        self.ngrams = positive("ngrams", ngrams)
        self.buckets = positive("buckets", buckets)
        self.new_words = natural("new_words", new_words)
        if vocabulary_size * buckets >= 2**30:
            raise ValueError(
                "`vocabulary_size` times `buckets` must be below 2³⁰. Received: "
                f"vocabulary_size={vocabulary_size}, buckets={buckets}"
            )
        self.factor = next(
            p
            for p in range(vocabulary_size, vocabulary_size + buckets)
            if math.gcd(p, buckets) == 1
        )
        self.built = True

    @property
    def size(self) -> int:
        """The number of different features, including padding."""
        return self.vocabulary_size + (self.buckets if self.ngrams > 1 else 0)

    @property
    def num_ids(self) -> int:
        """The number of different ids, those of new words included."""
        return self.vocabulary_size + self.new_words

    def call(self, inputs: Tensor) -> Tensor:
        word = ops.cast(inputs, "int32")
        is_valid = masks.padding(word)  # (..., L)
        feature = word
        if self.new_words:
            is_new = word >= self.vocabulary_size
            above = self.size + 1 - self.vocabulary_size
            feature = ops.where(is_new, word + above, word)
            is_valid = ops.logical_and(is_valid, ops.logical_not(is_new))
        parts, hashed, whole = [feature], word % self.buckets, is_valid
        for _ in range(1, self.ngrams):
            # Append this word to the n-gram that ends at the previous word.
            hashed = (shifted(hashed) * self.factor + word) % self.buckets
            whole = ops.logical_and(is_valid, shifted(whole))
            parts.append(ops.where(whole, self.vocabulary_size + hashed, 0))
        return ops.concatenate(parts, axis=-1)  # (..., ·)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        words = inputs.shape[-1]
        width = None if words is None else self.ngrams * words
        return keras.KerasTensor((*inputs.shape[:-1], width), "int32")


@export
class MemoryWriter(Configured, keras.layers.Layer):
    """G, generalization: writes each sentence into the next free slot, with its time.

    The memory is a table of records. A record holds the time and the features of a
    sentence. An extra last slot may hold m_∅, "nothing more". A network chooses m_∅ to
    signal that it has found all facts that it needs. The time of m_∅ is earlier than
    the times of all sentences. The layer has no weights.

    Args:
        nothing: the single feature of m_∅; None for a memory without m_∅.

    Call arguments:
        inputs: integers (B, M, ·), features of sentences in reading order. A sentence
            without features is an empty slot.

    Returns:
        int32 (B, M, 1 + ·), or (B, M + 1, 1 + ·) with m_∅. A record starts with its
        time: 1 for the first sentence, 0 for m_∅, −1 for an empty slot. Its features
        follow.

    Raises:
        ValueError: if `nothing` is below 1.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import MemoryWriter
    >>> story = np.array([[[3, 1], [0, 0], [2, 0]]])
    >>> np.asarray(MemoryWriter(nothing=9)(story)).tolist()
    [[[1, 3, 1], [-1, 0, 0], [2, 2, 0], [0, 9, 0]]]

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), sections 2 and 3.4; m_∅:
        Weston et al., "Towards AI-complete question answering" (2015), section 5.
    """

    input_ranks: ClassVar[Any] = {"inputs": 3}

    def __init__(self, nothing: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.nothing = None if nothing is None else positive("nothing", nothing)
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        if inputs.shape[1] == 0:
            raise ValueError(
                "`inputs` must have at least one slot (axis 1). "
                f"Received: inputs.shape={tuple(inputs.shape)}"
            )
        check_ids("inputs", inputs, 2**31, least=-(2**31))
        inputs = ops.cast(inputs, "int32")
        filled = ops.any(masks.padding(inputs), axis=-1)  # (B, M)
        count = ops.cumsum(ops.cast(filled, "int32"), axis=1)
        times = ops.where(filled, count, -1)
        records = ops.concatenate([times[..., None], inputs], axis=-1)  # (B, M, ·)
        if self.nothing is None:
            return records
        blank = ops.zeros_like(records[:, :1])  # (B, 1, ·)
        nothing = [blank[..., :1], blank[..., 1:2] + self.nothing, blank[..., 2:]]
        last = ops.concatenate(nothing, axis=-1)
        return ops.concatenate([records, last], axis=1)  # (B, M, ·)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        batch, slots, width = inputs.shape
        if slots is not None and self.nothing is not None:
            slots += 1
        width = None if width is None else width + 1
        return keras.KerasTensor((batch, slots, width), "int32")


@export
class WordContexts(Configured, keras.layers.Layer):
    """Finds the neighbours of the new words of a story.

    A new word has an id from V to V + N − 1. These ids have no embeddings: they stand
    for other words in each story. The word before it and the word after it, in all
    places of the story, represent a new word. The layer has no weights.

    Args:
        vocabulary_size: V, the number of known words, padding (0) included.
        new_words: N, the largest number of new words in a story.

    Call arguments:
        inputs: integers (B, M, L), a story; token 0 is padding.

    Returns:
        int32 (B, M, L, 3). For the n-th new word: n, counted from 1, the word before it
        and the word after it in its sentence. A neighbour that does not exist or is
        also a new word is 0. For known words and padding: three times 0.

    Raises:
        ValueError: if a size is below 1.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import WordContexts
    >>> contexts = WordContexts(vocabulary_size=5, new_words=2)
    >>> np.asarray(contexts(np.array([[[6, 4, 3, 5]]]))).tolist()
    [[[[2, 0, 4], [0, 0, 0], [0, 0, 0], [1, 3, 0]]]]

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.5. The paper uses
        the whole text, not only the story.
    """

    id_sizes: ClassVar[Any] = {"inputs": "num_ids"}
    input_ranks: ClassVar[Any] = {"inputs": 3}

    def __init__(self, vocabulary_size: int, new_words: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = positive("vocabulary_size", vocabulary_size)
        self.new_words = positive("new_words", new_words)
        self.built = True

    @property
    def num_ids(self) -> int:
        """The number of different ids, V + N."""
        return self.vocabulary_size + self.new_words

    def call(self, inputs: Tensor) -> Tensor:
        word = ops.cast(inputs, "int32")
        is_new = word >= self.vocabulary_size
        known = ops.where(is_new, 0, word)
        front = ((0, 0),) * (len(word.shape) - 1)
        after = ops.pad(known, (*front, (0, 1)))[..., 1:]
        number = word - (self.vocabulary_size - 1)
        fields = ops.stack([number, shifted(known), after], axis=-1)
        return ops.where(ops.expand_dims(is_new, -1), fields, 0)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor((*inputs.shape, 3), "int32")


def shifted(x: Tensor) -> Tensor:
    """Shifts each row right by one position: puts 0 in front, drops the last entry."""
    front = ((0, 0),) * (len(x.shape) - 1)
    return ops.pad(x, (*front, (1, 0)))[..., :-1]
