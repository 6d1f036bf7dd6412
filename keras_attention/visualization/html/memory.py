"""The view of an external memory, step by step.

Shapes: T steps, M memory slots, W word width, R read heads, H write heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention.visualization.html.view import View, lines, shares, significant
from keras_attention.visualization.memory import _check_steps, _check_trace, _choose

_CAPTION = (
    "The network reads one input a step. It writes to slots of its memory, and reads "
    "from slots. Move the slider, or press a step."
)


def memory_view(
    trace: Any,
    sample: int = 0,
    steps: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    slots: int = 24,
    length: int | None = None,
    title: str | None = None,
    caption: str | None = None,
) -> View:
    """Shows the memory of a DNC or a Neural Turing Machine at each step.

    `plot_memory` draws all steps as a picture.

    Args:
        trace: The output of `DNC.trace` or `DNCNetwork.trace`: a named tuple of batched
            arrays.
        sample: Index of the sample in the batch.
        steps: At most T strings, what is read at each step.
        outputs: At most T strings, what the network says at each step; "" for nothing.
        slots: Maximum number of slots to show. Slots with the largest weights come
            first.
        length: Number of steps to show, without padding; None for all.
        title: Defaults to "An external memory, step by step".
        caption: Sentences below the title.

    Returns:
        A `View`, for `to_html`.

    Raises:
        ValueError: Same as `plot_memory`.

    Example:
    ```python
    trace = model.trace(inputs)  # model: a `DNCNetwork`
    view = memory_view(trace, steps=words)
    ```
    """
    seen = _check_trace(trace, sample, length)
    count = len(seen.memory)
    if not isinstance(slots, (int, np.integer)) or slots < 1:
        raise ValueError(f"`slots` must be at least 1. Received: slots={slots!r}")
    order, _ = _choose(seen, slots)
    order = np.sort(np.asarray(order, dtype=int))
    names, said = _check_steps(steps, count), _check_steps(outputs, count)
    left_out = seen.memory.shape[1] - len(order)
    note = f"{left_out} slots with smaller weights are left out." if left_out else ""
    usage = [] if seen.usage is None else shares(np.clip(seen.usage[:, order], 0, 1))
    data = {
        "memory": significant(seen.memory[:, order]),  # (T, M, W)
        "write": shares(seen.write_weights[:, :, order].swapaxes(0, 1)),  # (H, T, M)
        "read": shares(seen.read_weights[:, :, order].swapaxes(0, 1)),  # (R, T, M)
        "usage": usage,  # (T, M)
        "slots": order.tolist(),
        "steps": names or [""] * count,
        "outputs": said or [""] * count,
        "notes": [note] if note else [],
    }
    title = lines("title", title, "An external memory, step by step")
    return View("memory", title, lines("caption", caption, _CAPTION), data)
