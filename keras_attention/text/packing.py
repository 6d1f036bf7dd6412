"""Several texts in each row, for `PackedModel`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_attention.layers.base.arguments import positive


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
        sequences: texts as integers, of at least one token each. No token is `pad`.
        length: T, the number of tokens of a row.
        labels: one label for each text, (texts, …), for a `TransformerClassifier`.
        max_segments: N, the largest number of texts in a row; by default, there is no
            limit, and N is the number of texts in the fullest row.
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
