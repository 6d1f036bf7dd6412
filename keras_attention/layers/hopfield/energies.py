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
from keras_attention.layers.hopfield.rest import MAX_STEPS
from keras_attention.numerics import masks
from keras_attention.ops.hopfield.energy import hopfield_energy, hopfield_update

Tensor = Any

_active: ContextVar[dict[str, np.ndarray] | None] = ContextVar(
    "keras_attention_energies", default=None
)


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


def is_recording_energies() -> bool:
    """Returns whether a layer must record its energies."""
    return _active.get() is not None


def record(
    layer: Any, states: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool
) -> None:
    """Adds the energies of a call to the active recording.

    Args:
        layer: the `Hopfield`, for its path, β, normalizer, steps and tolerance.
        states: the initial states, (B, T, H, E).
        key: the stored patterns, (B, S, H, E).
        mask: booleans that broadcast to (B, T, S) or (B, H, T, S), or None.
        is_causal: whether state t may retrieve only patterns 0 … t.
    """
    energies = _active.get()
    if energies is None:
        return
    states, key = (ops.swapaxes(x, 1, 2) for x in (states, key))  # (B, H, ·, E)
    if mask is not None and len(mask.shape) == 3:
        mask = ops.expand_dims(mask, 1)  # (B, 1, T, S)
    if is_causal:
        causal = masks.causal(states.shape[2], key.shape[2])
        mask = causal if mask is None else ops.logical_and(mask, causal)
    beta = ops.convert_to_tensor(layer.betas[:, None].astype("float32"))  # (H, 1)
    options = {"beta": beta, "normalizer": layer.normalizer, "mask": mask}
    found = [ops.convert_to_numpy(hopfield_energy(states, key, **options))]
    for _ in range(layer.update_steps or MAX_STEPS):
        new = hopfield_update(states, key, **options)
        moved = ops.convert_to_numpy(ops.max(ops.norm(new - states, axis=-1)))
        states = new
        found.append(ops.convert_to_numpy(hopfield_energy(states, key, **options)))
        if layer.update_steps is None and moved <= layer.tolerance:
            break
    add(energies, layer.path, np.stack(found, axis=-1))  # (B, H, T, K + 1)
