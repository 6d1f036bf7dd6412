"""Several texts in each row, for `PackedModel`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class PackedTexts(NamedTuple):
    """Texts in R rows of T tokens, as `fit` and `predict` of a `PackedModel` take them.

    Attributes:
        inputs: {"tokens": int32 (R, T), "segment_ids": int32 (R, T)}. The segment ids
            of a row count its texts from 1; 0 is padding.
        labels: int32 (R, T), the next token of the same text, or padding after its last
            token. With labels of the texts: (R, N, …), those of the texts 1 … N.
        sample_weight: float32 (R, T) or (R, N), 1 where there is a label, else 0.
        rows: int32, the row of each text.
        segments: int32, the segment id of each text.
    """

    inputs: dict[str, np.ndarray]
    labels: np.ndarray
    sample_weight: np.ndarray
    rows: np.ndarray
    segments: np.ndarray


def pack(
    sequences: Sequence[Any],
    length: int,
    labels: Any = None,
    max_segments: int | None = None,
    pad: int = 0,
) -> PackedTexts:
    """Packs texts into rows: first fit, the longest first.

    Each text goes to the first row with room for it. No text is cut, and the same texts
    always give the same rows. The rows are in no useful order: shuffle them.

    The arrays go to `fit`, `tf.data.Dataset.from_tensor_slices` and the like. Without
    `labels`, they train a language model: the labels are the next tokens. For a
    `MaskedLM`, `TokenMasking` masks `inputs`. With the loss reduction
    "mean_with_sample_weight", padding does not count in the loss.

    Args:
        sequences: texts as sequences of integers, or one array with `pad` after shorter
            texts. Each text has at least one token.
        length: T, the number of tokens of a row.
        labels: one label for each text, (texts, …), for a `TransformerClassifier`.
        max_segments: N, the largest number of texts in a row; by default, there is no
            limit, and N is the number in the fullest row.
        pad: the token that fills the rows.

    Returns:
        A `PackedTexts`.

    Raises:
        ValueError: for no text; a text that is no row of integers, has no token or more
            than `length`; another number of labels than texts; or a size below 1.

    Example:

    >>> from keras_attention.text import pack
    >>> rows = pack([[5, 6, 7], [8, 9], [10, 3, 4, 2]], length=6, labels=[2, 0, 1])
    >>> rows.inputs["tokens"].tolist()
    [[10, 3, 4, 2, 8, 9], [5, 6, 7, 0, 0, 0]]
    >>> rows.inputs["segment_ids"].tolist()
    [[1, 1, 1, 1, 2, 2], [1, 1, 1, 0, 0, 0]]
    >>> rows.labels.tolist(), rows.sample_weight.tolist()
    ([[1, 0], [2, 0]], [[1.0, 1.0], [1.0, 0.0]])

    Outputs (R, N, …) of the texts, in their order, are `outputs[rows.rows,
    rows.segments - 1]`.
    """
    if length < 1 or (max_segments is not None and max_segments < 1):
        raise ValueError(
            "`length` and `max_segments` must be at least 1. "
            f"Received: length={length}, max_segments={max_segments}"
        )
    texts = _as_texts(sequences, length, pad)
    rows, segments = _first_fit([len(t) for t in texts], length, max_segments)
    shape = (rows.max() + 1, length)
    tokens, targets = np.full(shape, pad, "int32"), np.full(shape, pad, "int32")
    ids, weights = np.zeros(shape, "int32"), np.zeros(shape, "float32")
    for n in np.argsort(segments, kind="stable"):  # from the left to the right
        row, size = rows[n], len(texts[n])
        start = np.count_nonzero(ids[row])
        tokens[row, start : start + size] = texts[n]
        ids[row, start : start + size] = segments[n]
        targets[row, start : start + size - 1] = texts[n][1:]
        weights[row, start : start + size - 1] = 1
    if labels is not None:
        labels = np.asarray(labels)
        if len(labels) != len(texts):
            raise ValueError(
                "`labels` must hold one label for each text. Received: "
                f"{len(labels)} labels, {len(texts)} texts"
            )
        shape = (len(tokens), max_segments or int(segments.max()))
        targets = np.zeros((*shape, *labels.shape[1:]), labels.dtype)
        weights = np.zeros(shape, "float32")
        targets[rows, segments - 1], weights[rows, segments - 1] = labels, 1
    inputs = {"tokens": tokens, "segment_ids": ids}
    return PackedTexts(inputs, targets, weights, rows, segments)


def _as_texts(sequences: Any, length: int, pad: int) -> list[np.ndarray]:
    """Returns the texts as arrays of integers, checked."""
    texts = [np.asarray(text) for text in sequences]
    if isinstance(sequences, np.ndarray) and sequences.ndim == 2:
        texts = [
            text[: 1 + np.max(np.nonzero(text != pad), initial=-1)] for text in texts
        ]
    if not texts:
        raise ValueError("`sequences` must hold a text. Received: none")
    for n, text in enumerate(texts):
        if text.ndim != 1 or text.dtype.kind not in "iu" or not text.size:
            raise ValueError(
                "`sequences` must hold texts of integers, each with a token. Received: "
                f"text {n} with dtype={text.dtype}, shape={text.shape}"
            )
        if len(text) > length:
            raise ValueError(
                "`sequences` must hold no text that is longer than `length`. Received: "
                f"text {n} of {len(text)} tokens, length={length}"
            )
    return texts


def _first_fit(
    sizes: list[int], length: int, max_segments: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the row of each text, and its number in the row, from 1."""
    rows, segments = np.zeros((2, len(sizes)), "int32")
    room, counts = np.full(len(sizes), length), np.zeros(len(sizes), "int32")
    last = 0  # the first row without a text
    for n in np.argsort(np.negative(sizes), kind="stable"):
        row = int(np.argmax(room[: last + 1] >= sizes[n]))
        counts[row] += 1
        rows[n], segments[n] = row, counts[row]
        room[row] = -1 if counts[row] == max_segments else room[row] - sizes[n]
        last = max(last, row + 1)
    return rows, segments
