"""Nested cross-validation of a few settings with ten folds.

For each of the ten folds, a setting is selected with only the bags of the other folds.
For the selection, networks are trained without two folds i and j. Such a network is
scored on fold j when fold i is the test fold, and on fold i when fold j is the test
fold. With 20 networks per setting, each test fold thus has four validation folds. The
first setting is selected, unless the best setting is better by more than the standard
error of the difference. A network with the selected setting is then trained on the
other nine folds and scored on the test fold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FOLDS = 10
APART = (1, 2)  # distances between the two folds of a pair, modulo `FOLDS`

Train = Callable[[int, np.ndarray], np.ndarray]


def run(labels: np.ndarray, settings: int, train: Train, seed: int) -> dict[str, Any]:
    """Performs one repeat of the protocol.

    Args:
        labels: (B,), 0 and 1.
        settings: the number of candidate settings.
        train: a function of the index of a setting and a (K, B) bool array, which
            marks the training bags of K networks. Returns the networks' scores of all
            bags, (K, B).
        seed: the seed of the folds.

    Returns:
        `inner`, (settings, folds), the mean validation AUC; `outer`, (settings, folds),
        the test AUC; `chosen`, (folds,), the index of the selected setting; `auc`,
        (folds,), the test AUC of the selected setting; `auc_of_five`, (folds,), the
        test AUC of the mean score of five networks. These are the four validation
        networks and the test network of the selected setting. None of the five was
        trained on the fold. AUCs are in per cent.
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
    """Selects a setting for each fold: the best if clearly better, otherwise the first.

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
        The training bags, (K, B) bool, and the pairs of folds. The first networks each
        leave out a pair of folds, in the order of the pairs. The other networks each
        leave out one fold.
    """
    pairs = [(i, (i + apart) % FOLDS) for apart in APART for i in range(FOLDS)]
    without: list[Sequence[int]] = [*pairs, *((i,) for i in range(FOLDS))]
    return np.stack([~np.isin(fold, out) for out in without]), pairs


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Returns the area under the ROC curve in per cent.

    Args:
        labels: (b,), with at least one 0 and one 1.
        scores: (b,). A tie between the two classes counts one half.
    """
    above, below = scores[labels == 1][:, None], scores[labels == 0]
    return 100 * float(np.mean((above > below) + 0.5 * (above == below)))
