"""Finds the ends of sentences in a stream of words.

Shapes: B candidates, L words, T words of a stream, V words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention.layers import SentenceEncoder
from keras_attention.layers.base.checked import check_ids
from keras_attention.layers.base.serialization import export
from keras_attention.layers.memory_networks.sentence_encoder import normal
from keras_attention.models.base.arguments import check_sizes
from keras_attention.models.base.configured_model import ConfiguredModel

Tensor = Any


@export
class Segmenter(ConfiguredModel):
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
        inputs: a dict with "words": integers (B, L), candidates; 0 is padding.

    Returns:
        seg(c), (B, 1).

    Raises:
        ValueError: if a size is below 1. Calls also raise it for ids in NumPy arrays
            that are below 0 or not below the number of ids.

    Example:

    >>> import numpy as np
    >>> import keras
    >>> from keras_attention.models import Segmenter
    >>> model = Segmenter(vocabulary_size=6)
    >>> words, labels = Segmenter.candidates([[1, 2, 3], [4, 5]])
    >>> labels.tolist()
    [-1, -1, 1, -1, 1]
    >>> model.compile(keras.optimizers.Adam(0.1), keras.losses.Hinge())
    >>> history = model.fit({"words": words}, labels, epochs=50, verbose=0)
    >>> [part.tolist() for part in model.segment([4, 5, 1, 2, 3, 4])]
    [[4, 5], [1, 2, 3], [4]]

    Reference:
        Weston, Chopra & Bordes, "Memory networks" (2014), section 3.2.
    """

    id_sizes: ClassVar[dict[str, str]] = {"words": "vocabulary_size"}

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 50,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        check_sizes(vocabulary_size=vocabulary_size, embedding_dim=embedding_dim)
        words = keras.Input((None,), dtype="int32", name="words")  # (B, L)
        encoder = SentenceEncoder(
            vocabulary_size, embedding_dim, "bag", dtype=dtype, name="encoder"
        )
        score = keras.layers.Dense(
            1,
            use_bias=False,
            kernel_initializer=normal(),
            dtype=dtype,
            name="score",
        )
        super().__init__({"words": words}, score(encoder(words)), locals())

    @staticmethod
    def candidates(
        segments: Iterable[Sequence[int]],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns all beginnings of segments, and whether they are whole.

        Args:
            segments: lists of words, such as sentences.

        Returns:
            The candidates, int32 (B, L), padded with 0; labels int32 (B,), 1 for whole
            segments and −1 for others.

        Raises:
            ValueError: if there are no segments, or one has no words.
        """
        known = [np.asarray(segment, "int32") for segment in segments]
        if not known or not all(
            segment.ndim == 1 and len(segment) for segment in known
        ):
            raise ValueError(
                "`segments` must be lists of one word or more. Received: segments="
                f"{[segment.tolist() for segment in known][:5]}"
            )
        longest = max(map(len, known))
        rows, labels = [], []
        for segment in known:
            for size in range(1, len(segment) + 1):
                rows.append(np.pad(segment[:size], (0, longest - size)))
                labels.append(1 if size == len(segment) else -1)
        return np.stack(rows), np.array(labels, "int32")

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
        ids = words.astype("int32")
        # seg(c) is the sum of the scores of single words.
        each = self.predict({"words": ids[:, None]}, batch_size=1024, verbose=0)
        scores = np.asarray(ops.convert_to_numpy(each), "float64")[:, 0]
        ends, total = [], 0.0
        for place, score in enumerate(scores):
            total += float(score)
            if total > 0:
                ends.append(place + 1)
                total = 0.0
        return [part for part in np.split(words, ends) if len(part)]
