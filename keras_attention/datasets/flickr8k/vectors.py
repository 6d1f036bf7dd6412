"""Turns captions into the targets and labels of an `ImageCaptioner`."""

from typing import NamedTuple

import numpy as np

from keras_attention.datasets.flickr8k.images import Captioned
from keras_attention.datasets.ragged import padded
from keras_attention.datasets.translation.vectors import Encoder
from keras_attention.text.vocabulary import END, START


class Vectors(NamedTuple):
    """The output of `vectorize`: a row for each of the M captions.

    Attributes:
        rows: (M,) int64, the index of the caption's image.
        target: (M, T) int32, beginning with the start token, padded with 0.
        labels: (M, T) int32: the target shifted by one step, with the end token.
    """

    rows: np.ndarray
    target: np.ndarray
    labels: np.ndarray


def vectorize(
    captioned: Captioned, vocabulary: Encoder, length: int | None = None
) -> Vectors:
    """Turns captions into the targets and labels of an `ImageCaptioner`.

    Args:
        captioned: Images with captions.
        vocabulary: An object with `encode(text)`, such as
            `text.Vocabulary`.
        length: T. Defaults to the number of tokens of the longest caption plus one.
            Longer captions are left out.

    Raises:
        ValueError: No caption has fewer than `length` tokens, or `vocabulary` has no
            method `encode`.

    Example:
        ```python
        texts = (text for row in train.captions for text in row)
        words = Vocabulary.from_sentences(texts, min_count=5)
        rows, target, labels = vectorize(train, words, length=30)
        batch = {"features": train.images[rows[:64]], "target": target[:64]}
        ```
    """
    if not callable(getattr(vocabulary, "encode", None)):
        raise ValueError(
            "`vocabulary` must have a method `encode(text)`, as "
            "`text.Vocabulary` has. "
            f"Received: vocabulary={vocabulary!r}"
        )
    start = getattr(vocabulary, "start_token_id", START)
    end = getattr(vocabulary, "end_token_id", END)
    rows, written = [], []
    for row, texts in enumerate(captioned.captions):
        for text in texts:
            ids = list(vocabulary.encode(text))
            if length is None or len(ids) < length:
                rows.append(row)
                written.append(ids)
    if not rows:
        raise ValueError(
            "`length` must be greater than the number of tokens of a caption. "
            f"Received: length={length}, {len(captioned.captions)} images"
        )
    width = length or 1 + max(map(len, written))
    target = padded([[start, *ids] for ids in written], width)  # (M, T)
    labels = padded([[*ids, end] for ids in written], width)  # (M, T)
    return Vectors(np.array(rows, np.int64), target, labels)
