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
    """Returns the checked `num_heads` of a block, None if `attention` is a layer.

    Raises:
        ValueError: if `num_heads` is given although `attention` is a layer, or missing
            although `attention` is not a layer.
    """
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
    """Returns arguments of multi-head attention in the form of a config.

    Args:
        name: the name of the block's argument, for the error message.
        arguments: a dict, or None for no arguments.

    Raises:
        ValueError: for arguments that multi-head attention does not have.
    """
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
    """Raises a ValueError unless `cross_attention` fits the self-attention.

    Args:
        attention: a layer, arguments, or None.
        cross_attention: a layer, arguments, or None for the settings of `attention`.
    """
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
    found = {n: cross_attention[n] for n in ORDERED if cross_attention.get(n)}
    if found:
        raise ValueError(
            f"`cross_attention` must have none of {list(ORDERED)} as arguments: "
            "positions of the memory are not positions of the inputs. Received: "
            f"cross_attention with {found}"
        )


def copy_layer(layer: Any, name: str, without: tuple[str, ...] = ()) -> Any:
    """Creates a layer from the config of another layer, with new weights.

    Args:
        layer: the layer to copy.
        name: the name of the copy.
        without: the names of arguments that are None in the copy.
    """
    config = layer.get_config()
    changes: dict[str, Any] = dict.fromkeys(without)
    changes["name"] = name
    changes = {key: value for key, value in changes.items() if key in config}
    return type(layer).from_config({**config, **changes})


def build_attention(
    name: str, attention: Any, query_shape: tuple, memory_shape: tuple
) -> None:
    """Builds an attention layer, and checks that its output has the queries' width.

    Args:
        name: the name of the block's argument, for the error message.
        attention: a layer.
        query_shape: (B, T, D).
        memory_shape: (B, S, ·).

    Raises:
        ValueError: if the output does not have the width D of the queries.
    """
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
