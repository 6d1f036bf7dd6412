"""Several texts in each row, for `PackedModel`."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from keras import ops


class PackedTexts(NamedTuple):
    """Texts in R rows of T tokens, as `fit` and `predict` of a `PackedModel` take them.

    Attributes:
        inputs: {"tokens": int32 (R, T), "segment_ids": int32 (R, T)}.
        labels: int32 (R, T), the next tokens, and padding at the last token of a text;
            or (R, N, …), the labels of the texts 1 … N.
        sample_weight: float32 (R, T) or (R, N), 1 where there is a label, else 0.
        rows: int32, the row of each text, in the order of the texts.
        segments: int32, the segment id of each text in its row.
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

    Each text goes to the first row with room for it, whole. The same texts always give
    the same rows: shuffle the rows. For a `MaskedLM`, `TokenMasking` masks `inputs`.
    With the loss reduction "mean_with_sample_weight", padding does not count.

    Args:
        sequences: texts of at least one integer each; or an array with `pad` at the end
            of shorter texts.
        length: T, the number of tokens of a row.
        labels: one label for each text, for a `TransformerClassifier`.
        max_segments: N, the most texts of a row; by default, those of the fullest row.
        pad: the token that fills the rows.

    Raises:
        ValueError: for no text; a text that is no sequence of integers, has no token,
            or is longer than `length`; another number of labels; or a size below 1.

    Example:

    >>> from keras_attention.text import pack
    >>> rows = pack([[5, 6, 7], [8, 9], [10, 3, 4, 2]], length=6, labels=[2, 0, 1])
    >>> rows.inputs["tokens"].tolist()
    [[10, 3, 4, 2, 8, 9], [5, 6, 7, 0, 0, 0]]
    >>> rows.inputs["segment_ids"].tolist()
    [[1, 1, 1, 1, 2, 2], [1, 1, 1, 0, 0, 0]]
    >>> rows.labels.tolist(), rows.sample_weight.tolist()
    ([[1, 0], [2, 0]], [[1.0, 1.0], [1.0, 0.0]])

    The outputs (R, N, …) by text are `outputs[rows.rows, rows.segments - 1]`.
    """
    most = 1 if max_segments is None else max_segments
    for name, size in (("length", length), ("max_segments", most)):
        if not isinstance(size, Integral) or size < 1:
            raise ValueError(
                f"`{name}` must be a whole number of at least 1. "
                f"Received: {name}={size}"
            )
    texts = _as_texts(sequences, length, pad)
    rows, segments = _first_fit([len(t) for t in texts], length, max_segments)
    shape = (rows.max() + 1, length)
    tokens, targets = np.full(shape, pad, "int32"), np.full(shape, pad, "int32")
    ids, weights = np.zeros(shape, "int32"), np.zeros(shape, "float32")
    for n in np.argsort(segments, kind="stable"):  # from the left to the right
        row, start = rows[n], np.count_nonzero(ids[rows[n]])
        end = start + len(texts[n])
        tokens[row, start:end], ids[row, start:end] = texts[n], segments[n]
        targets[row, start : end - 1], weights[row, start : end - 1] = texts[n][1:], 1
    if labels is not None:
        labels = np.atleast_1d(labels)
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
    if hasattr(sequences, "shape"):
        sequences = ops.convert_to_numpy(sequences)
    texts = [np.asarray(text) for text in sequences]
    if isinstance(sequences, np.ndarray) and sequences.ndim == 2:
        ends = (sequences != pad) * np.arange(1, sequences.shape[1] + 1)
        texts = [text[:end] for text, end in zip(texts, ends.max(1, initial=0))]
    if not texts:
        raise ValueError("`sequences` must hold a text. Received: none")
    for n, text in enumerate(texts):
        is_row, limits = text.ndim == 1 and text.dtype.kind in "iu", ""
        if is_row and len(text):
            is_row = np.array_equal(text, text.astype("int32"))
            limits = f", from {text.min()} to {text.max()}"
        if not (is_row and 0 < len(text) <= length):
            raise ValueError(
                "`sequences` must hold texts of 1 to `length` integers of 32 bits. "
                f"Received: text {n} with dtype={text.dtype}, shape={text.shape}, "
                f"length={length}{limits}"
            )
    return texts


def _first_fit(sizes: list[int], length: int, max_segments: int | None) -> np.ndarray:
    """Returns the row of each text, and its number in the row, from 1."""
    placed = np.zeros((2, len(sizes)), "int32")
    room, counts = np.full(len(sizes), length), np.zeros(len(sizes), "int32")
    last = 0  # the first row without a text
    for n in np.argsort(np.negative(sizes), kind="stable"):
        row = int(np.argmax(room[: last + 1] >= sizes[n]))
        counts[row] += 1
        placed[:, n] = row, counts[row]
        room[row] = -1 if counts[row] == max_segments else room[row] - sizes[n]
        last = max(last, row + 1)
    return placed
