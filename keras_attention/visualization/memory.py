"""Figures of memory traces: written slots and the heads that read them later.

Lengths are in inches, font sizes in points. Shapes: T steps, M memory slots, W word
width, R read heads, H write heads, P panels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_attention.visualization.memory_panels import _VALUE, Panel, draw_panels
from keras_attention.visualization.plots import _captions, _check_texts
from keras_attention.visualization.sheet import Figure

_MOST = 40  # maximum number of rows for an input, an output or a word
_SEEN = 0.1  # minimum weight of a row
_WRITTEN, _READ = (0.90, 0.42, 0.0), (0.09, 0.35, 0.69)  # orange, blue
_MODE, _GATE, _USED = (0.35, 0.20, 0.60), (0.45, 0.30, 0.10), (0.0, 0.40, 0.20)


class _Sample(NamedTuple):
    """The trace of one sample, without padding; missing arrays are None."""

    memory: np.ndarray  # (T, M, W)
    write_weights: np.ndarray  # (T, H, M)
    read_weights: np.ndarray  # (T, R, M)
    usage: np.ndarray | None  # (T, M)
    modes: np.ndarray | None  # (T, R, 1 + 2H)
    free_gates: np.ndarray | None  # (T, R)
    allocation_gate: np.ndarray | None  # (T, H)
    write_gate: np.ndarray | None  # (T, H)


def plot_memory(
    trace: Any,
    sample: int = 0,
    inputs: Any = None,
    outputs: Any = None,
    steps: Sequence[str] | None = None,
    slots: int = 24,
    title: str | None = None,
) -> Figure:
    """Draws what a network wrote into its memory and when it read it back.

    The panels are stacked, and time runs from left to right:

    - the inputs, if given;
    - for each read head, the slots in the order of their first write: orange marks
      writes, and blue marks the reads of this head. The final contents of the slots are
      on the right;
    - for each read head, the step at which the content that it reads was written;
    - for a DNC, the read modes and the gates;
    - the usage of each slot;
    - the outputs, if given.

    The step of writing is computed from the write weights alone: a write of weight w
    replaces the share w of a slot's content. This is exact for an erase vector of 1,
    and an upper bound otherwise.

    Args:
        trace: The output of `DNC.trace`: a named tuple of batched arrays.
        sample: Index of the sample in the batch.
        inputs: Floats (T, D), the input of each step. Later steps are padding and are
            left out.
        outputs: Floats (T, V) from 0 to 1, the output of each step.
        steps: At most T strings, the labels of the steps. Empty strings give no label.
        slots: Maximum number of slots to draw. Slots with the largest weights come
            first.
        title: A title above the figure.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        ValueError: If `sample` is out of range; if the arrays of the trace differ in
            batch size, steps or slots, are not finite, or hold weights, modes, gates or
            usage outside [0, 1]; if `inputs` or `outputs` is not a numeric array (T,
            ·); if there are more inputs, outputs or labels than steps; or if `slots` is
            below 1.
        ImportError: If matplotlib is not installed.

    Example:
    ```python
    trace = layer.trace(inputs)  # layer: a `DNC`
    figure = plot_memory(trace, inputs=inputs[0], title="copy")
    figure.savefig("memory.png")
    ```
    """
    length = None if inputs is None else len(_check_values("inputs", inputs))
    if outputs is not None:
        length = max(len(_check_values("outputs", outputs)), length or 0)
    seen = _check_trace(trace, sample, length)
    labels = _check_steps(steps, len(seen.memory))
    if not isinstance(slots, (int, np.integer)) or slots < 1:
        raise ValueError(f"`slots` must be at least 1. Received: slots={slots!r}")
    order, least = _choose(seen, slots)
    panels = _in_and_out("in", inputs, len(seen.memory))
    panels += _panels(seen, order, labels)
    panels += _in_and_out("out", outputs, len(seen.memory))
    words = _words(seen, order)
    heading = [] if title is None else _captions(None, title)
    notes = _notes(seen, order, least)
    return draw_panels(panels, words, int(inputs is not None), labels, heading, notes)


def _check_values(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values, dtype="float64")
    if array.ndim != 2 or 0 in array.shape or not np.isfinite(array).all():
        raise ValueError(
            f"`{name}` must be a finite array (T, width), of one sample. "
            f"Received: {name}.shape={array.shape}"
        )
    return array


def _check_trace(trace: Any, sample: int, length: int | None) -> _Sample:
    """Checks a trace; returns the first `length` steps of one sample, as float64."""
    weights = []
    for name in ("write_weights", "read_weights", "memory"):
        array = np.asarray(getattr(trace, name, ()), dtype="float64")
        if array.ndim != 4 or 0 in array.shape:
            raise ValueError(
                "`trace` must be what `DNC.trace` returns, with memory (B, T, M, W) "
                "and write_weights and read_weights (B, T, heads, M). Received: "
                f"trace.{name}.shape={array.shape}"
            )
        weights.append(array)
    batch, steps = weights[-1].shape[:2]
    if not -batch <= sample < batch:
        raise ValueError(
            f"`sample` must be one of the batch of {batch}. Received: sample={sample}"
        )
    if length is not None and length > steps:
        raise ValueError(
            "`inputs` and `outputs` must have at most as many steps as `trace`. "
            f"Received: {length} of {steps}"
        )
    fields: dict[str, Any] = {}
    for name in _Sample._fields:
        field = getattr(trace, name, None)
        if field is None or isinstance(field, tuple):  # the cell has no such array
            fields[name] = None
            continue
        array = np.asarray(field, dtype="float64")
        _check_shape(name, array.shape, weights[-1].shape[:3])
        _check_range(name, array[sample], bounded=name != "memory")
        fields[name] = array[sample][:length]
    return _Sample(**fields)


def _check_shape(name: str, shape: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    """Checks that an array of a trace has the batch, steps and slots of the memory."""
    batch, steps, slots = sizes
    of_slots = name in ("usage", "write_weights", "read_weights")
    dimensions = {"memory": 4, "write_weights": 4, "read_weights": 4, "modes": 4}
    right = len(shape) == dimensions.get(name, 3) and shape[:2] == (batch, steps)
    if not right or (of_slots and shape[-1] != slots):
        raise ValueError(
            "`trace` must hold arrays of one batch, as many steps and as many slots: "
            f"its memory has {batch}, {steps} and {slots}. "
            f"Received: trace.{name}.shape={shape}"
        )


def _check_range(name: str, numbers: np.ndarray, bounded: bool) -> None:
    low, high = numbers.min(), numbers.max()
    least, most = (-1e-3, 1 + 1e-3) if bounded else (-np.inf, np.inf)
    if not (low >= least and high <= most) or not np.isfinite([low, high]).all():
        rule = "numbers in [0, 1]" if bounded else "finite numbers"
        raise ValueError(
            f"`trace` must hold {rule}. Received: trace.{name} from "
            f"{low:.4g} to {high:.4g}"
        )


def _check_steps(steps: Any, length: int) -> list[str]:
    labels = [] if steps is None else _check_texts("steps", steps, "step", length)
    return labels + [""] * (length - len(labels))


def _choose(seen: _Sample, most: int) -> tuple[np.ndarray, float]:
    """Returns the slots to draw, by first write, and the largest weight of the rest."""
    writes = seen.write_weights.sum(1)  # (T, M)
    largest = np.maximum(writes.max(0), seen.read_weights.max((0, 1)))  # (M,)
    ranked = np.argsort(-largest, kind="stable")
    chosen = ranked[: max(1, min(most, int((largest >= _SEEN).sum())))]
    left = np.setdiff1d(ranked, chosen)
    least = float(largest[left].max()) if len(left) else 0.0
    first = np.argmax(writes >= 0.5 * writes.max(0), axis=0)  # (M,)
    return chosen[np.argsort(first[chosen], kind="stable")], least


def _in_and_out(way: str, values: Any, length: int) -> list[Panel]:
    """Returns a panel of inputs or outputs, from light (minimum) to dark (maximum)."""
    if values is None:
        return []
    values = _check_values(f"{way}puts", values).T[:_MOST]  # (D, T)
    values = np.pad(values, ((0, 0), (0, length - values.shape[1])))
    title = "What came in" if way == "in" else "What went out"
    low, high = min(0.0, values.min()), max(1.0, values.max())
    return [Panel(title, values, [""] * len(values), _VALUE, low, high)]


def _panels(seen: _Sample, order: np.ndarray, labels: list[str]) -> list[Panel]:
    """Returns all panels about the memory."""
    slots = [f"slot {m}" for m in order]
    writes = np.minimum(seen.write_weights.sum(1), 1.0)[:, order].T  # (M, T)
    panels = []
    for head in range(seen.read_weights.shape[1]):
        reads = seen.read_weights[:, head, order].T  # (M, T)
        title = f"Slots written (orange), and read by head {head + 1} (blue)"
        panels.append(Panel(title, _mixed(writes, reads), slots))
        panels += _origins(seen, head, labels)
        panels += _modes(seen, head)
    panels += _gates(seen)
    if seen.usage is not None:
        usage = seen.usage[:, order].T
        panels.append(Panel("How much of a slot is in use", usage, slots, _USED))
    return panels


def _mixed(writes: np.ndarray, reads: np.ndarray) -> np.ndarray:
    """Returns write and read weights as colors on white, (rows, columns, 3)."""
    ink = [
        x[..., None] * (1 - np.array(color))
        for x, color in ((writes, _WRITTEN), (np.clip(reads, 0, 1), _READ))
    ]
    return np.clip(1 - ink[0] - ink[1], 0.0, 1.0)


def origins(write_weights: np.ndarray, read_weights: np.ndarray) -> np.ndarray:
    """Returns which share of the content read at each step was written at each step.

        sₜ[m, ·] = (1 − wₜ[m]) sₜ₋₁[m, ·] + wₜ[m] 1ₜ        shares of slot m
        oₜ = Σₘ rₜ[m] sₜ[m, ·]

    `write_weights` (T, M) are of all write heads together, `read_weights` (T, M) of one
    read head. The shares are (T, T): one row per reading step.
    """
    length, slots = write_weights.shape
    shares = np.zeros((slots, length))
    written_at = np.zeros((length, length))
    for step in range(length):
        weights = np.clip(write_weights[step], 0.0, 1.0)
        shares *= 1 - weights[:, None]
        shares[:, step] = weights
        written_at[step] = read_weights[step] @ shares
    return written_at


def _origins(seen: _Sample, head: int, labels: list[str]) -> list[Panel]:
    """Returns a panel with one row per writing step that the head reads."""
    back = origins(seen.write_weights.sum(1), seen.read_weights[:, head]).T
    rows = np.flatnonzero(back.max(1) >= _SEEN)
    if not len(rows):
        return []
    names = [f"step {n + 1} {labels[n]}".strip() for n in rows]
    title = f"When that was written which head {head + 1} reads"
    return [Panel(title, back[rows], names, _READ)]


def _modes(seen: _Sample, head: int) -> list[Panel]:
    """Returns a panel of read modes; backward and forward have a row per write head."""
    if seen.modes is None:
        return []
    modes = seen.modes[:, head].T  # (1 + 2H, T)
    writers = seen.write_weights.shape[1]
    if len(modes) == 1 + 2 * writers:
        ends = [f" (writer {n + 1})" if writers > 1 else "" for n in range(writers)]
        rows = [f"the one before{end}" for end in ends]
        rows += ["by content", *(f"the next one{end}" for end in ends)]
    else:
        rows = ["by content"] + [""] * (len(modes) - 1)
    title = f"How head {head + 1} finds its slots: by order of writing, or by content"
    return [Panel(title, modes, rows, _MODE)]


def _gates(seen: _Sample) -> list[Panel]:
    names = {"write_gate": "write", "allocation_gate": "to a free slot"}
    names["free_gates"] = "free what was read"
    cells, rows = [], []
    for name, row in names.items():
        gates = getattr(seen, name)
        if gates is not None:
            cells.append(gates.T)
            many = gates.shape[1] > 1
            rows += [f"{row} ({n + 1})" if many else row for n in range(gates.shape[1])]
    if not cells:
        return []
    return [Panel("Gates", np.concatenate(cells), rows, _GATE)]


def _words(seen: _Sample, order: np.ndarray) -> Panel:
    """Returns a panel of the final slot contents, blue below 0 and red above."""
    words = seen.memory[-1][order][:, :_MOST]  # (M, W)
    most = float(np.abs(words).max()) or 1.0
    return Panel("Words in the end", words, [""] * len(order), None, -most, most)


def _notes(seen: _Sample, order: np.ndarray, least: float) -> list[str]:
    slots = seen.memory.shape[1]
    notes = [
        "Time runs from left to right, a column a step. White is 0; full colour is 1.",
        "Words in the end: what is in the slots beside them, red above 0, blue below.",
    ]
    if len(order) < slots:
        notes.append(
            f"{len(order)} of {slots} slots are drawn; of the others none has a weight "
            f"above {100 * least:.0f} %."
        )
    return notes
