"""The attention layers of an `AttentionRNN` and their memories.

Shapes: B batch, T steps, S keys, H heads, U units, V width of a value.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.layers.base.adapter import as_attention
from keras_attention.numerics import masks

Tensor = Any


def attention_list(attention: Any) -> list[Any]:
    """Returns one or several attention layers as a list.

    Raises:
        ValueError: if the list is empty, or an entry is not an attention layer.
    """
    found = list(attention) if isinstance(attention, (list, tuple)) else [attention]
    for one in found or [attention]:
        as_attention(one, "attention")
    return found


def split_memory(count: int, memory: Any, key: Any, mask: Any) -> list[tuple]:
    """Returns a list with the value, key and mask of each attention layer.

    Args:
        count: the number of attention layers.
        memory: (B, S, V), or a list.
        key: (B, S, ·), a list, or None to use `memory`.
        mask: booleans (B, S), a list, or None.

    Raises:
        ValueError: if a list does not have `count` entries, or values, keys and masks
            do not fit each other.
    """
    given = {"memory": memory, "key": memory if key is None else key}
    given["memory_mask"] = mask
    lists = []
    for name, one in given.items():
        if not isinstance(one, (list, tuple)):
            lists.append([one] * count)
        elif len(one) == count:
            lists.append(list(one))
        else:
            raise ValueError(
                f"`{name}` must be one tensor, or a list of one for each attention: "
                f"there are {count}. Received: {len(one)}"
            )
    found = list(zip(*lists))
    for value, key, one in found:
        if len(value.shape) != 3 or 0 in value.shape[1:2] or value is not key:
            check_memory(value, key)
        if one is not None and tuple(one.shape) != tuple(value.shape[:2]):
            masks.check("memory_mask", one, tuple(value.shape[:2]))
    return found


def split_shapes(count: int, memory: Any, key: Any) -> list[tuple]:
    """Returns the shapes of the value and key of each layer; see `split_memory`."""
    key = memory if key is None else key
    both = [
        list(given) if isinstance(given[0], (list, tuple)) else [given] * count
        for given in (memory, key)
    ]
    return [(tuple(value), tuple(key)) for value, key in zip(*both, strict=True)]


def attend_each(
    attentions: list,
    query: Tensor,
    states: Any,
    prepared: tuple,
    random: Any,
    return_weights: bool,
    dtype: str,
) -> tuple[Tensor, tuple, tuple]:
    """Calls each attention layer; returns c of all layers, and their α and states.

    Args:
        attentions: the attention layers, as returned by `as_attention`.
        query: the queries, (B, U) or (B, T, U).
        states: the states of the attention layers.
        prepared: the prepared memories.
        random: the results of `sample`, with `()` for layers that are not random; or
            None.
        return_weights: whether to return α. If False, `()` is returned instead.
        dtype: the dtype of c and α, the compute dtype of the outer layer.
    """
    contexts, weights, new = [], [], []
    for n, attention in enumerate(attentions):
        samples = random[n] if random else ()
        if isinstance(samples, tuple) and not samples:
            samples = None
        if return_weights or samples is not None:
            context, alpha, state = attention.attend(
                query, prepared[n], states[n], samples
            )
            weights.append(ops.cast(alpha, dtype))
        else:
            context, state = attention.context(query, prepared[n], states[n])
        contexts.append(ops.cast(context, dtype))
        new.append(state)
    context = contexts[0] if len(contexts) == 1 else ops.concatenate(contexts, -1)
    return context, tuple(weights) if return_weights else (), tuple(new)


def check_inputs(inputs: Tensor, memory: Tensor) -> None:
    """Raises a ValueError unless inputs and memory are (B, T, D) and (B, S, V)."""
    if len(inputs.shape) != 3:
        raise ValueError(
            "`inputs` must have shape (batch, steps, width). "
            f"Received: inputs.shape={tuple(inputs.shape)}"
        )
    batches = inputs.shape[0], memory.shape[0]
    if None not in batches and batches[0] != batches[1]:
        raise ValueError(
            "`inputs` and `memory` must have the same batch size (axis 0). Received: "
            f"inputs.shape={tuple(inputs.shape)}, memory.shape={tuple(memory.shape)}"
        )


def check_memory(value: Tensor, key: Tensor) -> None:
    """Raises a ValueError unless memory and keys are (B, S, V) and (B, S, ·)."""
    for name, tensor in (("memory", value), ("key", key)):
        if len(tensor.shape) != 3:
            raise ValueError(
                f"`{name}` must have shape (batch, length, width). "
                f"Received: {name}.shape={tuple(tensor.shape)}"
            )
    if None not in (key.shape[1], value.shape[1]) and key.shape[1] != value.shape[1]:
        raise ValueError(
            "`key` and `memory` must have the same length (axis 1). Received: "
            f"key.shape={tuple(key.shape)}, memory.shape={tuple(value.shape)}"
        )
    if value.shape[1] == 0:
        raise ValueError(
            "`memory` must hold at least one entry to attend to; hide entries with "
            f"`memory_mask`. Received: memory.shape={tuple(value.shape)}"
        )
