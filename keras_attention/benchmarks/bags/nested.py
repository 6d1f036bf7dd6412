"""Nested cross-validation of a few settings, ten folds within ten.

For each of ten folds, settings are compared on bags of other folds only: networks are
trained without a pair of folds, the one that is tested and one of four others, and
scored on the latter. A network that was trained without folds i and j serves both of
them, so that 20 networks a setting give each of ten folds four others to compare on.
The first setting is taken unless another is better there by more than the standard
error of the difference, and is trained on all nine folds and scored on the tenth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FOLDS = 10
APART = (1, 2)  # of a pair of folds, around the circle

Train = Callable[[int, np.ndarray], np.ndarray]


def run(labels: np.ndarray, settings: int, train: Train, seed: int) -> dict[str, Any]:
    """One repeat of the protocol.

    Args:
        labels: (B,), 0 and 1.
        settings: how many there are to choose from.
        train: from the number of a setting, and (K, B) bool, the bags that each of K
            networks is trained on, to (K, B), what they then say of all bags.
        seed: of the folds.

    Returns:
        `inner`, (settings, folds), the mean AUC by which settings are compared;
        `outer`, (settings, folds), the AUC on the fold itself; `chosen`, the number of
        a setting for each fold; `auc`, what that setting has on the fold;
        `auc_of_five`, what the mean of its five networks has that did not see the fold,
        the four by which settings were compared among them. AUCs are in per cent.
    """
    fold = folds(labels, seed)
    parts, pairs = split(fold)
    inner, outer, five = [], [], []
    for n in range(settings):
        scores = train(n, parts)  # (K, B)
        compared, of_five = [], []
        for i in range(FOLDS):
            mine = [k for k, pair in enumerate(pairs) if i in pair]
            others = [sum(pairs[k]) - i for k in mine]
            compared.append(
                [
                    auc(labels[fold == other], scores[k, fold == other])
                    for k, other in zip(mine, others)
                ]
            )
            together = scores[[*mine, len(pairs) + i]].mean(0)
            of_five.append(auc(labels[fold == i], together[fold == i]))
        inner.append(compared)
        five.append(of_five)
        whole = scores[len(pairs) :]
        outer.append(
            [auc(labels[fold == i], whole[i, fold == i]) for i in range(FOLDS)]
        )
    chosen = choose(np.array(inner))
    place = np.arange(FOLDS)
    return {
        "inner": np.round(np.mean(inner, axis=2), 3).tolist(),
        "outer": np.round(outer, 3).tolist(),
        "chosen": chosen.tolist(),
        "auc": np.round(np.array(outer)[chosen, place], 3).tolist(),
        "auc_of_five": np.round(np.array(five)[chosen, place], 3).tolist(),
    }


def choose(inner: np.ndarray) -> np.ndarray:
    """The setting for each fold: the best one if it is clearly so, else the first.

    Args:
        inner: (settings, folds, others), what settings have on other folds.

    Returns:
        (folds,), numbers of settings.
    """
    best = inner.mean(2).argmax(0)  # the first of equals
    gain = inner[best, np.arange(inner.shape[1])] - inner[0]  # (folds, others)
    error = gain.std(1, ddof=1) / gain.shape[1] ** 0.5
    return np.where(gain.mean(1) > error, best, 0)


def folds(labels: np.ndarray, seed: int) -> np.ndarray:
    """(B,), the fold of each bag; each class is spread evenly over them."""
    random = np.random.default_rng(seed)
    fold = np.zeros(len(labels), int)
    start = 0
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        fold[rows] = (start + np.arange(len(rows))) % FOLDS
        start += len(rows)
    return fold


def split(fold: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """What networks are trained on.

    Args:
        fold: (B,).

    Returns:
        (K, B) bool: first all but a pair of folds, then all but one; and the pairs.
    """
    pairs = [(i, (i + apart) % FOLDS) for apart in APART for i in range(FOLDS)]
    without: list[Sequence[int]] = [*pairs, *((i,) for i in range(FOLDS))]
    return np.stack([~np.isin(fold, out) for out in without]), pairs


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """The area under the ROC curve in per cent: how often a positive bag scores higher.

    Args:
        labels: (b,), 0 and 1, both of them there.
        scores: (b,). Equal ones count one half.
    """
    above, below = scores[labels == 1][:, None], scores[labels == 0]
    return 100 * float(np.mean((above > below) + 0.5 * (above == below)))
