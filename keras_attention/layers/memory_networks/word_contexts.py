"""The contexts of words that have no features of their own.

Shapes: B batch, M memory slots, L words, N new words.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.layers.memory_networks.memory_writer import shifted

Tensor = Any


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
