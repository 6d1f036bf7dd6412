"""The view of a Hopfield retrieval. Shapes: K steps, S patterns, D neurons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.visualization.energy import _finite
from keras_attention.visualization.html.view import View, lines, shares, significant
from keras_attention.visualization.plots import _check_weights

_CAPTION = (
    "The network starts from the query. Each step moves the state towards the stored "
    "patterns that are most like it, and no step makes the energy larger."
)


def energy_view(
    states: Any,
    energies: Any,
    patterns: Any = None,
    weights: Any = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    caption: str | None = None,
) -> View:
    """Shows a Hopfield retrieval step by step: state, energy and weights of patterns.

    `plot_energy` draws several retrievals as a picture.

    Args:
        states: Array (K + 1, rows, columns): the query and the state after each of K
            steps, as images. The smallest number of all images is black.
        energies: Array (K + 1), the energy of each state.
        patterns: Array (S, rows, columns), the stored patterns; None to show none.
        weights: Array (K + 1, S) of floats in [0, 1], the weight of each pattern in the
            step after each state. It is given together with `patterns`.
        names: S strings, the names of the patterns. Defaults to "pattern 1" and so on.
        title: Defaults to "A Hopfield network completes a pattern".
        caption: Sentences below the title.

    Returns:
        A `View`, for `to_html`.

    Raises:
        ValueError: If the shapes do not match, a number is not finite, or only one of
            `patterns` and `weights` is given.

    Example:
    ```python
    _, trajectory = memory.retrieve(query[None], return_trajectory=True)
    states = trajectory.states.reshape(-1, rows, columns)
    view = energy_view(states, trajectory.energies[:, 0])
    ```
    """
    states = _finite("states", states)
    if states.ndim != 3 or 0 in states.shape:
        raise ValueError(
            "`states` must be an array (K + 1, rows, columns), of one retrieval. "
            f"Received: states.shape={states.shape}"
        )
    energies = _finite("energies", energies)
    if energies.shape != states.shape[:1]:
        raise ValueError(
            f"`energies` must have a number for each of {len(states)} states. "
            f"Received: energies.shape={energies.shape}"
        )
    if (patterns is None) != (weights is None):
        raise ValueError(
            "`patterns` and `weights` must be given together. "
            f"Received: patterns={patterns is not None}, weights={weights is not None}"
        )
    images = states
    stored, mixed = np.zeros((0, *states.shape[1:])), np.zeros((0, 0))
    if patterns is not None:
        stored = _finite("patterns", patterns)
        mixed = _check_weights(weights, "(K + 1, S), states by patterns")
        expected = (len(mixed[0]), *states.shape[1:])
        if stored.shape != expected or len(mixed) != len(states):
            raise ValueError(
                "`patterns` must be (S, rows, columns) and `weights` (K + 1, S), with "
                f"{len(states)} states of {states.shape[1:]}. Received: "
                f"patterns.shape={stored.shape}, weights.shape={mixed.shape}"
            )
        images = np.concatenate([states, stored])
    if names is None:
        names = [f"pattern {n + 1}" for n in range(len(stored))]
    if isinstance(names, str) or len(names) != len(stored):
        raise ValueError(
            f"`names` must hold a string for each of {len(stored)} patterns. "
            f"Received: names={names!r}"
        )
    data = {
        "rows": states.shape[1],
        "columns": states.shape[2],
        "low": significant(images.min()),
        "high": significant(images.max()),
        "states": significant(states.reshape(len(states), -1)),  # (K + 1, D)
        "energies": significant(energies),
        "patterns": significant(stored.reshape(len(stored), states[0].size)),  # (S, D)
        "weights": shares(mixed),
        "names": [str(name) for name in names],
        "notes": [],
    }
    title = lines("title", title, "A Hopfield network completes a pattern")
    return View("energy", title, lines("caption", caption, _CAPTION), data)
