"""Attention weights as matplotlib figures and as text for a terminal.

Shapes: K hops, M memory slots, T queries or words, S keys or grid cells. The functions
do not depend on models: weights are arrays, and sentences and tokens are text.
"""

from __future__ import annotations

import operator
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_attention.visualization.panels import draw_panels
from keras_attention.visualization.table import MARKER, Table, draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TOLERANCE = 1e-3  # half-precision weights may exceed 1 by a rounding error


def plot_hops(
    weights: Any,
    sentences: Sequence[str | Sequence[str]],
    question: str | Sequence[str] | None = None,
    answer: str | Sequence[str] | None = None,
    supporting: Iterable[int] | None = None,
    ax: Any = None,
) -> Figure:
    """Draws the attention weights of each hop of a memory network as a table.

    Rows are sentences and columns are hops; each cell shows the weight in per cent;
    larger weights have a darker blue. Empty sentences (padding) are left out; a note
    gives their weight, if any.

    Args:
        weights: Array (K, M) of floats in [0, 1]: K hops over M memory slots.
        sentences: At most M sentences, one per slot; each is a string or a sequence of
            words.
        question: A string or a sequence of words, drawn above the table.
        answer: A string or a sequence of words, drawn below the table.
        supporting: Zero-based indices of the supporting sentences of the answer, marked
            with a triangle.
        ax: A `matplotlib.axes.Axes` to draw in, with its labels outside. By default, a
            new figure of the right size is created.

    Returns:
        The `matplotlib.figure.Figure`; `figure.savefig("hops.png")` writes it.
        It does not use pyplot, so nothing needs to be closed.

    Raises:
        ValueError: If the weights are not a (K, M) array of numbers in [0, 1],
            if there are more sentences than slots, if all sentences are empty, or if
            `supporting` has invalid indices.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    figure = plot_hops(
        [[0.9, 0.1], [0.2, 0.8]],
        ["Mary took the milk.", "Mary went to the hall."],
        question="Where is the milk?",
        answer="hall",
        supporting=[0, 1],
    )
    figure.savefig("hops.png")
    ```
    """
    weights = _check_weights(weights, "(K, M), hops by memory slots")
    texts = _check_texts("sentences", sentences, "slot", weights.shape[1])
    marked = _check_supporting(supporting, texts)
    shown = [slot for slot, text in enumerate(texts) if text]
    labels = [textwrap.fill(texts[slot], 60) for slot in shown]
    notes = [
        "A hop is one look at all the sentences.",
        "Cells: its attention to each of them, in per cent.",
    ]
    if marked:
        notes.append(f"{MARKER} Supporting fact: the answer needs it.")
    left_out = np.sum(np.delete(weights, shown, axis=1), axis=1)  # (K,)
    notes += _note_left_out(left_out, "hop", "slots without a sentence")
    table = Table(
        shares=weights[:, shown].T,  # (M, K)
        rows=labels,
        columns=[f"hop {hop + 1}" for hop in range(len(weights))],
        cell_width=0.8,
        unit="%",
        marked=[slot in marked for slot in shown],
        above=_captions("Question", question),
        below=_captions("Answer", answer),
        notes=notes,
    )
    return draw(table, ax)


def plot_alignment(
    weights: Any,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    query_label: str = "query",
    key_label: str = "key",
    title: str | None = None,
    ax: Any = None,
) -> Figure:
    """Draws the attention weights between query and key tokens as a table.

    Rows are query tokens and columns are key tokens; each cell shows the weight in per
    cent; larger weights have a darker blue. Empty tokens (padding) are left out.

    Args:
        weights: Array (T, S) of floats in [0, 1].
        query_tokens: At most T strings, for the rows from the top.
        key_tokens: At most S strings, for the columns from the left.
        query_label: Label of the rows, for example `"English"`.
        key_label: Label of the columns, for example `"German"`.
        title: A title above the figure.
        ax: A `matplotlib.axes.Axes` to draw in, with its labels outside. By default, a
            new figure of the right size is created.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: If the weights are not a (T, S) array of numbers in [0, 1],
            if there are no tokens, or if there are more tokens than rows or columns.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    figure = plot_alignment(
        [[0.9, 0.1], [0.2, 0.8]], ["a", "house"], ["ein", "Haus"]
    )
    figure.savefig("alignment.png")
    ```
    """
    weights = _check_weights(weights, "(T, S), queries by keys")
    queries = _check_texts("query_tokens", query_tokens, "row", weights.shape[0])
    keys = _check_texts("key_tokens", key_tokens, "column", weights.shape[1])
    rows = [index for index, text in enumerate(queries) if text]
    columns = [index for index, text in enumerate(keys) if text]
    notes = [
        f"Rows: {query_label}. Columns: {key_label}.",
        "Cells: the row's attention to each column, in per cent.",
    ]
    left_out = np.sum(np.delete(weights[rows], columns, axis=1), axis=1)  # (T,)
    notes += _note_left_out(left_out, "row", "columns without a token")
    table = Table(
        shares=weights[np.ix_(rows, columns)],  # (T, S)
        rows=[queries[index] for index in rows],
        columns=[keys[index] for index in columns],
        cell_width=0.42,
        unit="",
        marked=[False] * len(rows),
        above=[] if title is None else _captions(None, title),
        below=[],
        notes=notes,
    )
    return draw(table, ax)


def plot_image_attention(
    image: Any,
    weights: Any,
    words: Sequence[str],
    grid: tuple[int, int],
    title: str | None = None,
) -> Figure:
    """Draws the attention of each word over an image.

    The first panel shows the image alone. Each further panel shows one word: the gray
    image with the smoothly upsampled weights on top; larger weights have a stronger
    red. Each panel has its own scale, and its largest weight is printed below in per
    cent. Empty words (padding) are left out.

    Args:
        image: Array (rows, columns) or (rows, columns, channels) with 1 or 3
            channels, of any numbers; the smallest is black.
        weights: Array (T, S) of floats in [0, 1], over the cells of a grid that covers
            the image, row by row.
        words: At most T strings.
        grid: Number of rows and columns of cells; their product is S.
        title: A title above the figure.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: If the image has another shape, if the weights are not a
            (T, S) array of numbers in [0, 1], if the grid does not have S cells, if
            there are no words, or if there are more words than rows of weights.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    figure = plot_image_attention(
        image, [[0.9, 0.1, 0.0, 0.0], [0.0, 0.0, 0.2, 0.8]], ["a", "7"], (2, 2)
    )
    figure.savefig("looked.png")
    ```
    """
    weights = _check_weights(weights, "(T, S), words by places")
    texts = _check_texts("words", words, "row", weights.shape[0])
    image = _check_image(image)
    rows, columns = grid
    if rows < 1 or columns < 1 or rows * columns != weights.shape[1]:
        raise ValueError(
            "`grid` must be the rows and columns of places, one a column of "
            f"`weights`. Received: grid={grid}, weights.shape={weights.shape}"
        )
    shown = [index for index, text in enumerate(texts) if text]
    maps = weights[shown].reshape(-1, rows, columns)  # one grid per word
    heading = [] if title is None else _captions(None, title)
    return draw_panels(image, maps, [texts[index] for index in shown], heading)


def hops_table(
    weights: Any,
    sentences: Sequence[str | Sequence[str]],
    supporting: Iterable[int] | None = None,
) -> str:
    """Formats the attention weights of each hop as a text table, in per cent.

    Args:
        weights: Array (K, M) of floats in [0, 1]: K hops over M memory slots.
        sentences: At most M sentences, one per slot; each is a string or a sequence of
            words. Empty sentences are left out.
        supporting: Zero-based indices of the supporting sentences of the answer, marked
            with a star.

    Returns:
        A multi-line string without a trailing newline.

    Raises:
        ValueError: Same as `plot_hops`.

    Example:
    >>> print(hops_table([[0.9, 0.1], [0.2, 0.8]], ["Mary ran.", "She fell."]))
    attention in %  hop 1  hop 2
    Mary ran.          90     20
    She fell.          10     80
    """
    weights = _check_weights(weights, "(K, M), hops by memory slots")
    texts = _check_texts("sentences", sentences, "slot", weights.shape[1])
    marked = _check_supporting(supporting, texts)
    rows = []
    for slot, text in enumerate(texts):
        if text:
            mark = ("* " if slot in marked else "  ") if marked else ""
            lines = textwrap.wrap(text, 60, initial_indent=mark)
            numbers = [f"{100 * weight:.0f}" for weight in weights[:, slot]]
            rows.append((lines[0], numbers))
            rows += [(" " * len(mark) + line, []) for line in lines[1:]]
    headings = [f"hop {hop + 1}" for hop in range(len(weights))]
    rows.insert(0, ("attention in %", headings))
    width = max(len(text) for text, _ in rows)
    lines = [
        text.ljust(width) + "".join(f"  {cell:>5}" for cell in cells)
        for text, cells in rows
    ]
    if marked:
        lines.append("* supporting fact: the answer needs it")
    return "\n".join(line.rstrip() for line in lines)


def _check_weights(weights: Any, shape: str) -> np.ndarray:
    weights = np.asarray(weights, dtype="float64")
    if weights.ndim != 2 or 0 in weights.shape:
        raise ValueError(
            f"`weights` must be an array {shape}, neither of them 0. "
            f"Received: weights.shape={weights.shape}"
        )
    if np.isnan(weights).any():
        raise ValueError(
            "`weights` must not hold NaN. "
            f"Received: {np.isnan(weights).sum()} NaN of {weights.size}"
        )
    if weights.min() < -_TOLERANCE or weights.max() > 1 + _TOLERANCE:
        raise ValueError(
            "`weights` must lie in [0, 1], as they do after a softmax. "
            f"Received: min={weights.min():.4g}, max={weights.max():.4g}"
        )
    return np.clip(weights, 0.0, 1.0)


def _check_image(image: Any) -> np.ndarray:
    """Returns the image in gray, floats (rows, columns) from 0 to 1."""
    image = np.asarray(image, dtype="float64")
    sound = image.ndim in (2, 3) and image.size and image.shape[2:] in ((), (1,), (3,))
    if not sound:
        raise ValueError(
            "`image` must be an array (rows, columns) or (rows, columns, channels), "
            f"of 1 or 3 channels. Received: image.shape={image.shape}"
        )
    if not np.isfinite(image).all():
        raise ValueError(
            "`image` must hold finite numbers. Received: "
            f"{np.size(image) - np.isfinite(image).sum()} that are not"
        )
    if image.ndim == 3:
        image = image.mean(axis=-1)
    image = image - image.min()
    return image / (image.max() or 1.0)


def _as_text(words: str | Sequence[str]) -> str:
    """Converts a string or a sequence of words to one line of text."""
    words = words.split() if isinstance(words, str) else [str(w) for w in words]
    return " ".join(word for word in words if word)


def _check_texts(
    name: str, texts: Sequence[str | Sequence[str]], place: str, places: int
) -> list[str]:
    if isinstance(texts, str):
        raise ValueError(
            f"`{name}` must be a sequence, one item a {place}, not one string. "
            f"Received: {name}={texts!r}"
        )
    lines = [_as_text(text) for text in texts]
    if len(lines) > places:
        raise ValueError(
            f"`{name}` must have at most one item a {place} of `weights`. "
            f"Received: len({name})={len(lines)}, {places} {place}(s)"
        )
    if not any(lines):
        raise ValueError(
            f"`{name}` must hold at least one item that is not empty. "
            f"Received: {name}={lines}"
        )
    return lines


def _check_supporting(
    supporting: Iterable[int] | None, texts: list[str]
) -> frozenset[int]:
    if supporting is None:
        return frozenset()
    indices = list(supporting)
    for index in indices:
        valid = not isinstance(index, (bool, np.bool_)) and hasattr(index, "__index__")
        if not valid or not 0 <= operator.index(index) < len(texts):
            raise ValueError(
                "`supporting` must hold indices of sentences, from 0 to "
                f"{len(texts) - 1}. Received: supporting={indices}"
            )
        if not texts[index]:
            raise ValueError(
                "`supporting` must not name an empty sentence. "
                f"Received: supporting={indices}, sentence {index} is empty"
            )
    return frozenset(operator.index(index) for index in indices)


def _captions(name: str | None, text: str | Sequence[str] | None) -> list[str]:
    if text is None:
        return []
    text = _as_text(text)
    return textwrap.wrap(f"{name}: {text}" if name else text, 80)


def _note_left_out(left_out: np.ndarray, name: str, where: str) -> list[str]:
    """Returns a note if hidden cells hold at least 1 % of a distribution."""
    if left_out.max() < 0.01:
        return []
    return [f"Up to {100 * left_out.max():.0f} % of a {name} lies on {where}."]
