"""Converts a multi-head attention layer to a Hopfield layer and back."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.multi_head.multi_head_attention import MultiHeadAttention
from keras_attention.ops.hopfield.energy import NORMALIZERS

# The keys that `projections` may contain, and their defaults.
PROJECTIONS = {
    "use_bias": True,
    "output_shape": None,
    "kernel_initializer": "glorot_uniform",
    "bias_initializer": "zeros",
    "kernel_regularizer": None,
    "bias_regularizer": None,
    "query_key_normalization": None,
}
# Options of attention, and the values that a Hopfield layer supports.
ABSENT: dict[str, tuple] = {
    "use_gate": (False,),
    "sliding_window": (None,),
    "attention_axes": (None, (1,)),
    "position": (None,),
    "attention_sinks": (False,),
    "soft_cap": (None,),
    "kernel_constraint": (None,),
    "bias_constraint": (None,),
    "normalizer": NORMALIZERS,
}


def from_multi_head(cls: type, layer: Any, **kwargs: Any) -> Any:
    """Returns a layer of a class; see `Hopfield.from_multi_head`."""
    if isinstance(layer, keras.layers.MultiHeadAttention):
        layer = MultiHeadAttention.from_keras(layer)
    if type(layer) is not MultiHeadAttention:
        raise ValueError(
            f"`layer` must be a `MultiHeadAttention`. Received: layer={layer!r}"
        )
    allowed = {**ABSENT, "num_key_value_heads": (layer.num_heads,)}
    options = {name: getattr(layer, name) for name in allowed}
    wrong = [f"{n}={v!r}" for n, v in options.items() if v not in allowed[n]]
    if wrong:
        raise ValueError(
            "`layer` must have no option that a Hopfield layer has not. "
            f"Received: layer with {', '.join(wrong)}"
        )
    config = layer.get_config()
    names = ("num_heads", "key_dim", "value_dim", "normalizer", "dropout", "dtype")
    arguments = {name: config[name] for name in names}
    arguments["projections"] = {name: config[name] for name in PROJECTIONS}
    made = cls(**{**arguments, **kwargs})
    if layer.built:
        made.build(**layer.get_build_config()["shapes_dict"])
        _assign(made.projection_weights, layer.get_weights())
    return made


def to_multi_head(layer: Any, **kwargs: Any) -> MultiHeadAttention:
    """Converts a Hopfield layer; see `Hopfield.to_multi_head`."""
    sharpness = layer.betas * layer.key_dim**0.5  # β relative to 1/√E, (H,)
    folds = not np.allclose(sharpness, 1, 0, 1e-12)
    if layer.update_steps != 1:
        raise ValueError(
            "`update_steps` must be 1: multi-head attention has one step. "
            f"Received: update_steps={layer.update_steps}"
        )
    if not layer.projections:
        raise ValueError(
            "`projections` must not be False: multi-head attention has projections. "
            f"Received: projections={layer.projections}"
        )
    if folds and layer.query_key_normalization is not None:
        raise ValueError(
            "`beta` cannot go into the projection of the queries, because they are "
            "normalized after it. Received: query_key_normalization="
            f"{layer.query_key_normalization!r}, beta={layer.betas.tolist()}"
        )
    named = layer.projections if isinstance(layer.projections, dict) else {}
    made = MultiHeadAttention(
        layer.num_heads,
        layer.key_dim,
        layer.value_dim,
        dropout=layer.dropout,
        normalizer=layer.normalizer,
        **{"dtype": layer.get_config()["dtype"], **named, **kwargs},
    )
    made.build(**layer.get_build_config()["shapes_dict"])
    arrays = [ops.convert_to_numpy(w.value) for w in layer.projection_weights]
    _assign(made.weights, arrays)
    if folds:
        for weight in made.query_dense.weights:  # (Dq, H, E) and (H, E)
            factor = ops.cast(sharpness[:, None], weight.dtype)
            weight.assign(weight.value * factor)
    return made


def _assign(weights: list, arrays: list[np.ndarray]) -> None:
    shapes = [tuple(weight.shape) for weight in weights]
    if [tuple(x.shape) for x in arrays] != shapes:
        raise ValueError(
            "`layer` must hold a kernel and a bias for each projection: take it over "
            "before `enable_lora` or `quantize`. Received: weights of shapes "
            f"{[tuple(x.shape) for x in arrays]}, not {shapes}"
        )
    for weight, value in zip(weights, arrays):
        weight.assign(value)
