"""Finds the ends of sentences in a stream of words.

Shapes: B candidates, L words, T words of a stream, V words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.checked import check_ids
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.layers.memory_networks.sentence_encoder import (
    SentenceEncoder,
    normal,
)

Tensor = Any


@export
class Segmenter(Configured, keras.layers.Layer):
    """Decides whether the words read since the last segment are a segment.

        seg(c) = W_segᵀ U_S Φ_seg(c)

    where Φ_seg(c) is the bag of the words c. A memory network then writes each segment
    into its memory, if its input comes word by word. `candidates` turns known segments
    into examples: each beginning of a segment is labelled −1, and each whole segment 1.
    Train with `keras.losses.Hinge()`, the margin loss of the paper with γ = 1.
    `segment` reads a stream and ends a segment where seg(c) > 0. (The paper compares
    with γ, where the loss of a true segment becomes 0.)

    Args:
        vocabulary_size: V, the number of different words, padding (0) included.
        embedding_dim: the width of the embeddings.

    Call arguments:
        inputs: integers (B, L), candidates; 0 is padding.

    Returns:
        seg(c), (B, 1).

    Raises:
        ValueError: if a size is below 1.

    Example:

    >>> import numpy as np
    >>> import keras
    >>> from keras_attention.layers import Segmenter
    >>> segmenter = Segmenter(vocabulary_size=6)
    >>> words, labels = Segmenter.candidates([[1, 2, 3], [4, 5]])
    >>> labels.tolist()
    [-1, -1, 1, -1, 1]
    >>> model = keras.Sequential([segmenter])
    >>> model.compile(keras.optimizers.Adam(0.1), keras.losses.Hinge())
    >>> history = model.fit(words, labels, epochs=50, verbose=0)
    >>> [part.tolist() for part in segmenter.segment([4, 5, 1, 2, 3, 4])]
    [[4, 5], [1, 2, 3], [4]]

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.2.
    """

    id_sizes: ClassVar[Any] = {"inputs": "vocabulary_size"}
    input_ranks: ClassVar[Any] = {"inputs": 2}

    def __init__(
        self, vocabulary_size: int, embedding_dim: int = 50, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = positive("vocabulary_size", vocabulary_size)
        self.embedding_dim = positive("embedding_dim", embedding_dim)
        self.words = SentenceEncoder(
            vocabulary_size, embedding_dim, "bag", dtype=self.dtype_policy, name="words"
        )
        self.score = keras.layers.Dense(
            1,
            use_bias=False,
            kernel_initializer=normal(),
            dtype=self.dtype_policy,
            name="score",
        )

    def build(self, input_shape: Any) -> None:
        self.words.build(None)
        self.score.build((None, self.embedding_dim))
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        return self.score(self.words(inputs))  # (B, 1)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor((inputs.shape[0], 1), self.compute_dtype)

    @staticmethod
    def candidates(segments: Iterable[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        """Returns all beginnings of segments, and whether they are whole.

        Args:
            segments: lists of words, such as sentences.

        Returns:
            The candidates, int32 (B, L), padded with 0; labels int32 (B,), 1 for whole
            segments and −1 for others.

        Raises:
            ValueError: if there are no segments, one has no words, or a word is not a
                whole number of at least 1.
        """
        known = [np.asarray(segment) for segment in segments]
        if not known or not all(s.ndim == 1 and len(s) for s in known):
            raise ValueError(
                "`segments` must be lists of one word or more. Received: segments="
                f"{[segment.tolist() for segment in known][:5]}"
            )
        for n, segment in enumerate(known):
            name = f"segments[{n}]"
            if segment.dtype.kind not in "iuf":
                raise ValueError(
                    f"`{name}` must hold integers. Received: {name}={segment.tolist()}"
                )
            check_ids(name, segment, 2**31, least=1)
        longest = max(map(len, known))
        rows, labels = [], []
        for segment in known:
            for size in range(1, len(segment) + 1):
                rows.append(np.pad(segment[:size], (0, longest - size)))
                labels.append(1 if size == len(segment) else -1)
        return np.stack(rows).astype("int32"), np.array(labels, "int32")

    def segment(self, words: Any) -> list[np.ndarray]:
        """Reads a stream of words and ends a segment wherever seg(c) > 0.

        Args:
            words: integers (T,), without padding.

        Returns:
            The segments in order. Words after the last end are the last segment.

        Raises:
            ValueError: if the words are not of rank 1, or not ids of words.
        """
        words = np.asarray(words)
        if words.ndim != 1:
            raise ValueError(
                f"`words` must have rank 1. Received: words.shape={words.shape}"
            )
        check_ids("words", words, self.vocabulary_size, least=1)
        if not len(words):
            return []
        # seg(c) is the sum of the scores of single words.
        ids, place_of = np.unique(words.astype("int32"), return_inverse=True)
        each = ops.convert_to_numpy(ops.cast(self(ids[:, None]), "float32"))
        scores = np.asarray(each, "float64")[place_of, 0]
        ends, total = [], 0.0
        for place, score in enumerate(scores):
            total += float(score)
            if total > 0:
                ends.append(place + 1)
                total = 0.0
        return [part for part in np.split(words, ends) if len(part)]
