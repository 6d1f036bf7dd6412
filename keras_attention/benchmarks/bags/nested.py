"""Nested cross-validation of a few settings with ten folds.

Each of the ten folds selects a setting with the bags of other folds only. Networks are
trained without two folds, the test fold and one of four validation folds, and scored on
the validation fold. A network trained without folds i and j serves both of them, so 20
networks per setting give each fold four validation folds. The first setting is selected
unless another is better by more than the standard error of the difference. The selected
setting is trained on nine folds and scored on the tenth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FOLDS = 10
APART = (1, 2)  # circular distances between the folds of a pair

Train = Callable[[int, np.ndarray], np.ndarray]


def run(labels: np.ndarray, settings: int, train: Train, seed: int) -> dict[str, Any]:
    """Runs one repeat of the protocol.

    Args:
        labels: (B,), 0 and 1.
        settings: the number of candidate settings.
        train: maps the index of a setting and (K, B) bool, the training bags of K
            networks, to (K, B), their scores of all bags.
        seed: the seed of the folds.

    Returns:
        `inner`, (settings, folds), the mean validation AUC; `outer`, (settings, folds),
        the test AUC; `chosen`, the index of the selected setting for each fold; `auc`,
        its test AUC; `auc_of_five`, the test AUC of the mean of its five networks that
        did not see the fold, including the four validation networks. AUCs are in per
        cent.
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
    """Selects the setting of each fold: the best if clearly better, else the first.

    Args:
        inner: (settings, folds, others), the validation AUCs.

    Returns:
        (folds,), indices of settings.
    """
    best = inner.mean(2).argmax(0)  # the first among ties
    gain = inner[best, np.arange(inner.shape[1])] - inner[0]  # (folds, others)
    error = gain.std(1, ddof=1) / gain.shape[1] ** 0.5
    return np.where(gain.mean(1) > error, best, 0)


def folds(labels: np.ndarray, seed: int) -> np.ndarray:
    """Assigns a fold to each bag, (B,), stratified by class."""
    random = np.random.default_rng(seed)
    fold = np.zeros(len(labels), int)
    start = 0
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        fold[rows] = (start + np.arange(len(rows))) % FOLDS
        start += len(rows)
    return fold


def split(fold: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Returns the training bags of the networks.

    Args:
        fold: (B,), the fold of each bag.

    Returns:
        (K, B) bool, first without pairs of folds, then without single folds; and the
        pairs.
    """
    pairs = [(i, (i + apart) % FOLDS) for apart in APART for i in range(FOLDS)]
    without: list[Sequence[int]] = [*pairs, *((i,) for i in range(FOLDS))]
    return np.stack([~np.isin(fold, out) for out in without]), pairs


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Returns the area under the ROC curve in per cent.

    Args:
        labels: (b,), with at least one 0 and one 1.
        scores: (b,). Ties count one half.
    """
    above, below = scores[labels == 1][:, None], scores[labels == 0]
    return 100 * float(np.mean((above > below) + 0.5 * (above == below)))
