"""The attention layers of a block, given as layers or as arguments."""

from __future__ import annotations

from inspect import signature
from typing import Any

from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import as_config
from keras_attention.layers.multi_head.multi_head_attention import MultiHeadAttention

BY_BLOCK = ("self", "num_heads", "output_shape", "attention_axes", "kwargs")
# The arguments of multi-head attention that a dict may contain.
KNOWN = [
    n for n in signature(MultiHeadAttention.__init__).parameters if n not in BY_BLOCK
]
# Only for self-attention: positions of a memory are not positions of the inputs.
ORDERED = ("position", "sliding_window")


def is_layer(attention: Any) -> bool:
    """Returns whether `attention` is a layer, not a dict of arguments or None."""
    return not (attention is None or isinstance(attention, dict))


def check_num_heads(num_heads: Any, attention: Any) -> int | None:
    """Returns the checked `num_heads` of a block, None if `attention` is a layer."""
    if is_layer(attention):
        as_attention(attention)
        if num_heads is not None:
            raise ValueError(
                "`num_heads` must be None where `attention` is a layer, which has "
                f"heads of its own. Received: num_heads={num_heads!r}, "
                f"attention={attention!r}"
            )
        return None
    if num_heads is None:
        raise ValueError(
            "`num_heads` must be given unless `attention` is a layer. Received: "
            f"num_heads=None, attention={attention!r}"
        )
    return positive("num_heads", num_heads)


def check_arguments(name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the arguments of multi-head attention, checked, as a config."""
    unknown = sorted({*(arguments or {})} - {*KNOWN})
    if unknown:
        raise ValueError(
            f"`{name}` must be an attention layer, or a dict of further arguments of "
            f"the block's `MultiHeadAttention`, among {KNOWN}. Received: {name} with "
            f"{unknown}"
        )
    # Each attention layer creates separate objects from these configs.
    return {k: as_config(v) for k, v in (arguments or {}).items()}


def check_cross_attention(attention: Any, cross_attention: Any) -> None:
    """Raises a ValueError unless `cross_attention` fits the self-attention."""
    if cross_attention is None:
        return
    if is_layer(cross_attention):
        as_attention(cross_attention, "cross_attention")
        if cross_attention is attention:
            raise ValueError(
                "`cross_attention` must be another layer than `attention`. Received: "
                f"{attention!r} for both"
            )
        return
    if is_layer(attention):
        raise ValueError(
            "`cross_attention` must be a layer, or None, where `attention` is a layer: "
            "arguments need the block's `num_heads`. Received: "
            f"cross_attention={cross_attention!r}"
        )
    wrong = {n: cross_attention[n] for n in ORDERED if cross_attention.get(n)}
    if wrong:
        raise ValueError(
            f"`cross_attention` must have none of {list(ORDERED)} as arguments: "
            "positions of the memory are not positions of the inputs. Received: "
            f"cross_attention with {wrong}"
        )


def copy_layer(layer: Any, name: str, without: tuple[str, ...] = ()) -> Any:
    """Copies a layer, with new weights and None for the arguments in `without`."""
    config = layer.get_config()
    changes = {**dict.fromkeys(without), "name": name}
    changes = {key: value for key, value in changes.items() if key in config}
    return type(layer).from_config({**config, **changes})


def build_attention(
    name: str, attention: Any, query_shape: tuple, memory_shape: tuple
) -> None:
    """Builds an attention layer, and checks that its output has the queries' width."""
    layer = as_attention(attention, name)
    if not layer.built:
        layer.build(query_shape, memory_shape)
    width = layer.output_width(query_shape[-1], memory_shape[-1])
    if width != query_shape[-1]:
        raise ValueError(
            f"`{name}` must return the width of the block's inputs, "
            f"{query_shape[-1]}, to which its output is added. Received: "
            f"{name}={attention!r}, which returns the width {width} for a memory of "
            f"shape {memory_shape}"
        )
