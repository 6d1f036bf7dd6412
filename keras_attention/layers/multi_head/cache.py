"""The cache of step-by-step self-attention; with a window, it is a ring buffer.

Shapes: B batch, T steps, P positions of a cache, G heads of keys and values, E width of
a head, V width of a value.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

from keras import ops

from keras_attention.layers.base.attention_layer import (
    Prepared,
    cache_length,
    write_steps,
)
from keras_attention.layers.base.checked import check_usable
from keras_attention.numerics import masks

Tensor = Any


def empty_cache(
    layer: Any, batch: Any, length: Any, window: int | None = None
) -> Prepared:
    """Returns an empty cache of a layer with heads, at most as long as the window."""
    check_usable(layer, "initial_cache", None)
    length = cache_length(length)
    if window is not None:
        length = min(length, window) if isinstance(length, Integral) else window
    heads = (batch, length, layer.num_key_value_heads)
    return Prepared(
        ops.zeros((*heads, layer.key_dim), layer.compute_dtype),
        ops.zeros((*heads, layer.value_dim), layer.compute_dtype),
        ops.zeros((batch, length), "bool"),
    )


def check_fits(layer: Any, name: str, inputs: Tensor, memory: Prepared) -> None:
    """Raises a ValueError if keys and values belong to another layer or batch."""
    for side, width in (("key", layer.key_dim), ("value", layer.value_dim)):
        shape = tuple(getattr(memory, side).shape)
        wanted = (inputs.shape[0], None, layer.num_key_value_heads, width)
        fits = len(shape) == 4 and all(
            None in (a, b) or a == b for a, b in zip(shape, wanted)
        )
        if not fits:
            raise ValueError(
                f"`{name}` must be one of this layer and for this batch: its {side} "
                f"must have shape {wanted}. Received: {name}.{side}.shape={shape}"
            )


def write_cache(
    cache: Prepared, new: Prepared, index: Any, positions: Tensor, window: int | None
) -> tuple[Prepared, Tensor, Prepared]:
    """Returns the memory to attend to, its positions (·,), and the updated cache.

    A cache as long as the window is a ring buffer: it stores position p in slot
    p mod P.

    Args:
        cache: keys (B, P, G, E), values (B, P, G, V) and their mask (B, P).
        new: keys, values and mask of the next T steps.
        index: the position of the first new step.
        positions: the positions of all new steps, (T,).
        window: the sliding window, or None.
    """
    size, steps = ops.shape(cache.key)[1], ops.shape(new.key)[1]
    rolls = window is not None and cache.key.shape[1] == window
    if not rolls or new.key.shape[1] == 1:
        at = index % size if rolls else index
        cache = Prepared(*(write_steps(a, b, at) for a, b in zip(cache, new)))
        held = _ring_positions(positions[-1], size) if rolls else masks.positions(size)
        return cache, held, cache
    before = _ring_positions(positions[0] - 1, size)
    attended = Prepared(*(ops.concatenate(pair, axis=1) for pair in zip(cache, new)))
    after = _ring_positions(positions[-1], size)  # (P,)
    source = ops.clip(after - positions[0], 0, steps - 1)

    def rolled(old: Tensor, new_part: Tensor) -> Tensor:
        shape = (1, size, *[1] * (len(old.shape) - 2))
        is_new = ops.reshape(after >= positions[0], shape)
        return ops.where(is_new, ops.take(new_part, source, axis=1), old)

    cache = Prepared(*(rolled(old, new_part) for old, new_part in zip(cache, new)))
    return attended, ops.concatenate([before, positions]), cache


def _ring_positions(last: Tensor, size: int) -> Tensor:
    """Returns the positions (P,) in a ring buffer after position `last` is written.

    Slot j holds the largest p ≤ last with p mod P = j. If p < 0, the slot is empty.
    """
    place = ops.arange(size)
    return last - (last - place) % size
