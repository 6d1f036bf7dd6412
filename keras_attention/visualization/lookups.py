"""Figures of what a memory's read heads look up: the steps that wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.visualization.memory import _READ, _check_trace, origins
from keras_attention.visualization.memory_panels import Panel, draw_panels
from keras_attention.visualization.plots import _captions, _check_texts
from keras_attention.visualization.sheet import Figure


def plot_lookups(
    trace: Any,
    labels: Sequence[str],
    sample: int = 0,
    first: int = 0,
    least: float = 0.3,
    title: str | None = None,
) -> Figure:
    """Draws which earlier steps a network looks up, and when.

    Each read head has a panel. A column is a reading step, and a row is a step that
    wrote what is read. A cell is the share of the read content that was written at this
    step; see `plot_memory`, which also shows slots and gates.

    Args:
        trace: The output of `DNC.trace`: a named tuple of batched arrays.
        labels: At most T strings, what each step reads as its input. Later steps are
            padding and are left out.
        sample: Index of the sample in the batch.
        first: The first reading step to draw, from 0; for example that of the question.
        least: The smallest share, above 0 and up to 1, for which a row is drawn: the
            writing step wrote at least this share of what is read at some drawn step.
            If there is no such row, the panel has the row with the largest share, and a
            note says so.
        title: A title above the figure.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there are no labels or more than steps, `first` or `least` is out
            of range, or the trace is wrong as for `plot_memory`.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    figure = plot_lookups(model.trace(inputs), ["a b", "b c", "a ?"], first=2)
    figure.savefig("lookups.png")
    ```
    """
    texts = _check_texts("labels", labels, "label", len(labels))
    seen = _check_trace(trace, sample, len(texts))
    if not 0 <= first < len(texts):
        raise ValueError(
            f"`first` must be a step from 0 to {len(texts) - 1}. Received: {first=}"
        )
    if not 0 < least <= 1:
        raise ValueError(f"`least` must be above 0 and up to 1. Received: {least=}")
    panels = []
    without: list[str] = []  # numbers of the heads without a share of `least`
    for head in range(seen.read_weights.shape[1]):
        shares = origins(seen.write_weights.sum(1), seen.read_weights[:, head])
        shares = shares[first:]  # (reading steps, writing steps)
        rows = np.flatnonzero(shares.max(0) >= least)
        title_of = f"What head {head + 1} reads, by the step that wrote it"
        if not len(rows):
            rows = shares.max(0).argmax(keepdims=True)
            without.append(str(head + 1))
        names = [f"{n + 1}: {texts[n]}" for n in rows]
        panels.append(Panel(title_of, shares[:, rows].T, names, _READ))
    heading = [] if title is None else _captions(None, title)
    steps = [f"{n + 1}: {text}" for n, text in enumerate(texts)][first:]
    notes = [
        "Columns: the reading steps. White is 0; full colour is 1.",
        f"Rows: the steps that wrote {100 * least:.3g} % or more of what is read at "
        "some step.",
    ]
    if without:
        heads = f"Head{'s' * (len(without) > 1)} {', '.join(without)}"
        notes.append(
            f"{heads}: no step wrote as much; the row is the step that wrote the most."
        )
    return draw_panels(panels, None, 0, steps, heading, notes)
