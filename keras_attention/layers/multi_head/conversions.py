"""Converts attention layers of Keras and modules of torch to our layer.

The code does not import torch: it only reads attributes of a module.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

GROUPED = {"head_dim": "key_dim", "num_query_heads": "num_heads"}


def from_keras(cls: type, layer: Any) -> Any:
    """Returns a layer of a class; see `MultiHeadAttention.from_keras`."""
    kinds = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)
    if type(layer) not in kinds:
        is_subclass = isinstance(layer, kinds)
        reason = ", a subclass, whose changes would be lost" if is_subclass else ""
        raise ValueError(
            "`layer` must be a keras.layers.MultiHeadAttention or "
            f"keras.layers.GroupQueryAttention. Received: layer={layer!r}{reason}"
        )
    config = layer.get_config()
    if isinstance(layer, keras.layers.GroupQueryAttention):
        config = {GROUPED.get(name, name): value for name, value in config.items()}
    made = cls(**config)
    if not layer.built:
        return made
    made.build(**layer.get_build_config()["shapes_dict"])
    weights, wanted = layer.get_weights(), [tuple(w.shape) for w in made.weights]
    if [w.shape for w in weights] != wanted:
        raise ValueError(
            "`layer` must hold a kernel and a bias for each projection: take it over "
            "before `enable_lora` or `quantize`. "
            f"Received: weights of shapes {[w.shape for w in weights]}, not {wanted}"
        )
    made.set_weights(weights)
    return made


def from_torch(cls: type, module: Any, **kwargs: Any) -> Any:
    """Returns a layer of a class; see `MultiHeadAttention.from_torch`."""
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
    width, heads, size = module.embed_dim, module.num_heads, module.head_dim
    use_bias = module.in_proj_bias is not None
    made = cls(heads, size, dropout=module.dropout, use_bias=use_bias, **kwargs)
    made.build(*((None, None, n) for n in (width, module.vdim, module.kdim)))
    if module.in_proj_weight is None:
        parts: Any = module.q_proj_weight, module.k_proj_weight, module.v_proj_weight
        parts = [_array(part) for part in parts]
    else:
        parts = np.split(_array(module.in_proj_weight), 3)
    weights = [part.T.reshape(-1, heads, size) for part in parts]
    last = [_array(module.out_proj.weight).T.reshape(heads, size, width)]
    if use_bias:
        biases = _array(module.in_proj_bias).reshape(3, heads, size)
        weights = [x for pair in zip(weights, biases) for x in pair]
        last.append(_array(module.out_proj.bias))
    made.set_weights([*weights, *last])
    return made


def _array(parameter: Any) -> np.ndarray:
    return np.asarray(parameter.detach().cpu().float().numpy())
