"""Two-dimensional maps of word vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keras_attention.visualization.sheet import Figure, new_plot

_SIZE = (7.2, 4.4)  # inches


def plot_vectors(
    vectors: np.ndarray,
    words: Sequence[str],
    arrows: Sequence[tuple[int, int]] = (),
    title: str | None = None,
) -> Figure:
    """Draws word vectors in the plane of their first two principal components.

    The plot is an orthogonal projection: all other components are dropped, and both
    axes have the same scale.

    Args:
        vectors: (V, D), with V of at least 2.
        words: V words.
        arrows: Pairs of row indices to join by an arrow, such as "man" and "woman".
        title: A title above the figure.

    Returns:
        The `matplotlib.figure.Figure`; `figure.savefig("words.png")` writes it.

    Raises:
        ValueError: If there are fewer than two vectors, or the numbers of vectors and
            words differ.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    figure = plot_vectors(np.eye(3), ["red", "green", "blue"])
    figure.savefig("colours.png")
    ```
    """
    vectors = np.asarray(vectors, float)
    if vectors.ndim != 2 or len(vectors) < 2 or len(vectors) != len(words):
        raise ValueError(
            "`vectors` must have a row for each word, and two at least. Received: "
            f"vectors.shape={vectors.shape}, {len(words)} words"
        )
    figure, ax = new_plot(*_SIZE, title)
    places = flat(vectors)
    ax.scatter(*places.T, s=14, color="#1f5fa8")
    for first, second in arrows:
        ax.annotate(
            "",
            places[second],
            places[first],
            arrowprops={"arrowstyle": "->", "color": "#c4491d", "linewidth": 1.0},
        )
    for place, word in zip(places, words):
        ax.annotate(
            word, place, (4, 3), textcoords="offset points", fontsize=9, color="#222222"
        )
    ax.margins(0.12)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_xticks([])
    ax.set_yticks([])
    return figure


def flat(vectors: np.ndarray) -> np.ndarray:
    """Projects vectors (V, D) onto their first two principal components, (V, 2).

    The sign of each axis makes its largest coordinate positive.
    """
    centred = vectors - vectors.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    places = (left * sizes)[:, :2]  # (V, 2), or (V, 1) for vectors of width 1
    places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
    largest = np.take_along_axis(places, np.abs(places).argmax(0)[None], axis=0)
    return places * np.where(largest < 0, -1, 1)
