"""Records the energies of the states of Hopfield layers.

Shapes: B batch, T states, S patterns, H heads, E width of a head, K update steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from keras import ops

from keras_attention.layers.base.recording import add
from keras_attention.numerics import mask_objects, masks
from keras_attention.ops.hopfield.energy import hopfield_energy, hopfield_update

Tensor = Any

_active: ContextVar[dict[str, np.ndarray] | None] = ContextVar(
    "keras_attention_energies", default=None
)
# Returns the active recording if layers must record their energies, or None.
is_recording = _active.get


@contextmanager
def record_energies() -> Iterator[dict[str, np.ndarray]]:
    """Records the energies of all Hopfield layers called eagerly in this context.

    Calls with a bias are not recorded, because their energy is not defined. Several
    calls of a layer are numbered: "hopfield/0", "hopfield/1", ….

    Yields:
        A dict that maps the path of each called `Hopfield` to the energies
        (B, H, T, K + 1) of each state before the first and after each update step.
    """
    energies: dict[str, np.ndarray] = {}
    token = _active.set(energies)
    try:
        yield energies
    finally:
        _active.reset(token)


def record(
    energies: dict[str, np.ndarray],
    layer: Any,
    states: Tensor,
    key: Tensor,
    mask: Any,
    is_causal: bool,
    most: int,
) -> None:
    """Adds the energies of a call of a `Hopfield` to a recording.

    The states are (B, T, H, E), the keys (B, S, H, E), before the first of at `most` so
    many steps.
    """
    states, key = (ops.swapaxes(x, 1, 2) for x in (states, key))  # (B, H, ·, E)
    mask = mask_objects.as_array(mask, states.shape[2], key.shape[2])
    if is_causal:
        mask = masks.merge(mask, masks.causal(states.shape[2], key.shape[2]))
    beta = ops.convert_to_tensor(layer.betas[:, None].astype("float32"))  # (H, 1)
    options = {"beta": beta, "normalizer": layer.normalizer, "mask": mask}
    steps = [ops.convert_to_numpy(hopfield_energy(states, key, **options))]
    for _ in range(layer.update_steps or most):
        new = hopfield_update(states, key, **options)
        moved = ops.convert_to_numpy(ops.max(ops.norm(new - states, axis=-1)))
        states = new
        steps.append(ops.convert_to_numpy(hopfield_energy(states, key, **options)))
        if layer.update_steps is None and moved <= layer.tolerance:
            break
    add(energies, layer.path, np.stack(steps, axis=-1))  # (B, H, T, K + 1)
