"""Reads a user's tab-separated texts with any labels, and splits them in three."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np

from keras_attention.datasets import files, sentences

LEAST = 3  # texts of each label: for training, development and test


def read(
    path: str | os.PathLike[str],
) -> tuple[dict[str, list[sentences.Sentence]], list[str]]:
    """Reads a file of lines with a text, a tab and a label.

    The first line is a header if no other line has its label. A tenth of the texts of
    each label, drawn with seed 0, is for the development, and a tenth for the test.

    Returns:
        The sentences of "train", "dev" and "test", and the labels in alphabetical
        order.

    Raises:
        ValueError: a line is not a text, a tab and a label, a label has too few texts,
            or there is one label only; the message gives the file and the line.
    """
    rows: list[tuple[str, str, int]] = []
    for number, line in enumerate(files.read_text(path).split("\n"), 1):
        if line.strip():
            fields = [field.strip() for field in line.split("\t")]
            if len(fields) != 2 or not fields[1] or not sentences.tokenize(fields[0]):
                raise ValueError(
                    f"{path}, line {number}: must be a text with words, a tab and a "
                    f"label. Received: {line!r}"
                )
            rows.append((fields[0], fields[1], number))
    counts = Counter(label for _, label, _ in rows)
    if rows and counts[rows[0][1]] == 1:
        del counts[rows.pop(0)[1]]
    if len(counts) < 2 or min(counts.values()) < LEAST:
        raise ValueError(
            f"{path} must have two labels or more, in the second column, with at least "
            f"{LEAST} texts each. Received: {dict(counts.most_common()[-5:])}"
        )
    labels, rng = sorted(counts), np.random.default_rng(0)
    splits: dict[str, list[sentences.Sentence]] = {"train": [], "dev": [], "test": []}
    for number, label in enumerate(labels):
        texts = [text for text, other, _ in rows if other == label]
        part = max(len(texts) // 10, 1)
        for place, i in enumerate(rng.permutation(len(texts)).tolist()):
            split = ("dev", "test", "train")[min(place // part, 2)]
            splits[split].append(sentences.Sentence(texts[i], number))
    return splits, labels
