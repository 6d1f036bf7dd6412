"""Converts a multi-head attention layer to a Hopfield layer and back."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.hopfield.arguments import NORMALIZERS, PROJECTIONS
from keras_attention.layers.multi_head.multi_head_attention import MultiHeadAttention

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


def checked(layer: Any) -> MultiHeadAttention:
    """Returns a layer that a Hopfield layer can replace as our `MultiHeadAttention`."""
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
    return layer


def arguments_of(layer: MultiHeadAttention) -> dict[str, Any]:
    """Returns the Hopfield arguments that correspond to those of an attention layer."""
    config = layer.get_config()
    return {
        **{name: config[name] for name in ("num_heads", "key_dim", "value_dim")},
        "dropout": config["dropout"],
        "normalizer": layer.normalizer,
        "projections": {name: config[name] for name in PROJECTIONS},
        "dtype": config["dtype"],
    }


def take_weights(made: Any, layer: MultiHeadAttention) -> None:
    """Builds the Hopfield layer `made`, and copies the weights of a built `layer`."""
    if not layer.built:
        return
    made.build(**layer.get_build_config()["shapes_dict"])
    _assign(made.projection_weights, layer.get_weights())


def attention_of(layer: Any, **kwargs: Any) -> MultiHeadAttention:
    """Converts a Hopfield layer to multi-head attention; see `to_multi_head`."""
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
