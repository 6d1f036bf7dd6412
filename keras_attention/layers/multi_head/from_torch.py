"""Converts the arguments and weights of `torch.nn.MultiheadAttention`.

The code does not import torch: it only reads attributes of the module.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def arguments_of(module: Any) -> dict[str, Any]:
    """Returns the arguments that make our `MultiHeadAttention` equal to `module`.

    Args:
        module: a `torch.nn.MultiheadAttention`.

    Raises:
        ValueError: for any other module, or if the module adds extra keys.
    """
    kind = f"{type(module).__module__}.{type(module).__name__}"
    if kind != "torch.nn.modules.activation.MultiheadAttention":
        raise ValueError(
            "`module` must be a torch.nn.MultiheadAttention. "
            f"Received: module={module!r}"
        )
    if module.bias_k is not None or module.add_zero_attn:
        raise ValueError(
            "`module` must not add keys of its own (`add_bias_kv`, `add_zero_attn`), "
            f"for which there is no argument here. Received: module={module!r}"
        )
    return {
        "num_heads": module.num_heads,
        "key_dim": module.head_dim,
        "dropout": module.dropout,
        "use_bias": module.in_proj_bias is not None,
    }


def take_weights(made: Any, module: Any) -> None:
    """Builds our layer for the widths of a torch module, and copies the weights.

    Args:
        made: our layer, created with the result of `arguments_of`.
        module: the torch module.
    """
    width, heads, size = module.embed_dim, module.num_heads, module.head_dim
    widths = (width, module.vdim, module.kdim)
    made.build(*((None, None, n) for n in widths))
    if module.in_proj_weight is None:
        parts = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        query, key, value = (_array(part) for part in parts)
    else:
        query, key, value = np.split(_array(module.in_proj_weight), 3)
    projections = [part.T.reshape(-1, heads, size) for part in (query, key, value)]
    last = _array(module.out_proj.weight).T.reshape(heads, size, width)
    if module.in_proj_bias is None:
        made.set_weights([*projections, last])
        return
    biases = _array(module.in_proj_bias).reshape(3, heads, size)
    pairs = [x for pair in zip(projections, biases) for x in pair]
    made.set_weights([*pairs, last, _array(module.out_proj.bias)])


def _array(parameter: Any) -> Array:
    return np.asarray(parameter.detach().cpu().float().numpy())
