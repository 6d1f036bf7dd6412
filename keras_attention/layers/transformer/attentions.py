"""The attentions of a block: layers that it is handed, or arguments for its own."""

from __future__ import annotations

from inspect import signature
from typing import Any

from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import as_config
from keras_attention.layers.multi_head.multi_head_attention import MultiHeadAttention

BY_BLOCK = ("self", "num_heads", "output_shape", "attention_axes", "kwargs")
# The arguments of multi-head attention that a dict may hold.
KNOWN = [
    n for n in signature(MultiHeadAttention.__init__).parameters if n not in BY_BLOCK
]
# Self-attention alone has them: positions of a memory are not those of the inputs.
ORDERED = ("position", "sliding_window")


def is_layer(attention: Any) -> bool:
    """Whether an `attention` is a layer, not arguments to make one from."""
    return not (attention is None or isinstance(attention, dict))


def check_num_heads(num_heads: Any, attention: Any) -> int | None:
    """How many heads the multi-head attentions of a block have; None for a layer.

    Raises:
        ValueError: unless heads are given where there are arguments, and only there.
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
    """Arguments of multi-head attention as a config holds them.

    Args:
        name: of the block's argument, for the message.
        arguments: a dict, or None for none.

    Raises:
        ValueError: for those that multi-head attention does not have.
    """
    unknown = sorted({*(arguments or {})} - {*KNOWN})
    if unknown:
        raise ValueError(
            f"`{name}` must be an attention layer, or a dict of further arguments of "
            f"the block's `MultiHeadAttention`, among {KNOWN}. Received: {name} with "
            f"{unknown}"
        )
    # As configs, so that each attention makes objects of its own from them.
    return {k: as_config(v) for k, v in (arguments or {}).items()}


def check_cross_attention(attention: Any, cross_attention: Any) -> None:
    """Raises a ValueError unless the attention to a memory fits the one to the inputs.

    Args:
        attention: a layer, arguments, or None.
        cross_attention: the same; None to make it as `attention` is.
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
    """A layer made from another's config, with weights of its own.

    Args:
        layer: the other one.
        name: of the copy.
        without: arguments that the copy does not get.
    """
    config = layer.get_config()
    changes: dict[str, Any] = dict.fromkeys(without)
    changes["name"] = name
    changes = {key: value for key, value in changes.items() if key in config}
    return type(layer).from_config({**config, **changes})


def build_attention(
    name: str, attention: Any, query_shape: tuple, memory_shape: tuple
) -> None:
    """Builds an attention, and holds its output to the width of the queries.

    Args:
        name: of the block's argument, for the message.
        attention: a layer.
        query_shape: (B, T, D).
        memory_shape: (B, S, ·).

    Raises:
        ValueError: if its output does not fit into a residual.
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
