"""Rows of consecutive words, which share their negative samples.

Shapes: N words per chunk, R rows, S words per row, W window, K shared negatives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

ROW = 32  # S


class Rows(NamedTuple):
    """Consecutive center words with the words around them.

    Attributes:
        center: (R, S) int32 center words, 0 after the end of the text.
        near: (R, S + 2 W) int32, the same words with W words before and after them.
        first: (R, S), the first column of `near` in the window of each center word.
        stop: (R, S), the column after the last one.
    """

    center: np.ndarray
    near: np.ndarray
    first: np.ndarray
    stop: np.ndarray


def rows_of(
    tokens: np.ndarray, sentence: np.ndarray, reach: np.ndarray, window: int
) -> Rows:
    """Cuts a text into rows; a window does not leave the sentence of its center word.

    `tokens`, `sentence` and `reach` are (N,): words, the ascending indices of their
    sentences, and the sizes of their windows, at most `window`.
    """
    count = len(tokens)
    rows = -(-count // ROW)
    place = np.arange(count)
    ends = np.append(np.flatnonzero(np.diff(sentence)) + 1, count)  # per sentence
    lengths = np.diff(ends, prepend=0)
    first = np.maximum(place - reach, np.repeat(ends - lengths, lengths))
    stop = np.minimum(place + reach + 1, np.repeat(ends, lengths))
    start = place // ROW * ROW - window  # the place of a row's first column
    text = np.zeros(rows * ROW + 2 * window, np.int32)
    text[window : window + count] = tokens
    near = np.lib.stride_tricks.sliding_window_view(text, ROW + 2 * window)[::ROW]
    padding = rows * ROW - count
    return Rows(
        text[window : window + rows * ROW].reshape(rows, ROW),
        near,
        *(
            np.pad((bound - start).astype(np.int32), (0, padding)).reshape(rows, ROW)
            for bound in (first, stop)
        ),
    )


def signed_weights(rows: Rows, negatives: int, shared: int) -> np.ndarray:
    """Returns the labels of all center words and columns, (R, S, S + 2 W + K) float32.

    They are 1 for the pairs, 0 for the other words of the text, and −`negatives` / K
    times the number of a center word's pairs for each of the K = `shared` negatives.
    """
    (count, size), columns = rows.center.shape, rows.near.shape[1]
    column = np.arange(columns, dtype=np.int32)
    center = (columns - size) // 2 + np.arange(size)  # the columns of the center words
    labels = np.empty((count, size, columns + shared), np.float32)
    near = labels[..., :columns]
    after = column >= rows.first[..., None]
    np.logical_and(after, column < rows.stop[..., None], out=near, casting="unsafe")
    near[:, np.arange(size), center] = 0
    pairs = np.maximum(rows.stop - rows.first - 1, 0)  # without the word itself
    labels[..., columns:] = (pairs * (-negatives / shared))[..., None]
    return labels
