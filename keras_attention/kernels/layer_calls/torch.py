"""Calls of Keras layers without what Keras does around them on torch."""

from __future__ import annotations

import math
from typing import Any

import keras
import torch
import torch.nn.functional as F
from keras.src.backend.common.variables import get_autocast_scope

from keras_attention.kernels.tracing.torch import is_traced

Tensor = Any


_PLAIN = {
    keras.layers.Dense,
    keras.layers.LSTMCell,
    keras.layers.GRUCell,
    keras.layers.SimpleRNNCell,
}


def dense(layer: Any, x: Tensor, mapped: int) -> Tensor:
    """The product and the sum alone, where Keras' layer does nothing else.

    What is around them takes longer than they do, of a few words.
    """
    plain = (
        type(layer) is keras.layers.EinsumDense
        and isinstance(x, torch.Tensor)
        and not (layer.lora_enabled or layer.activity_regularizer)
        and layer.quantization_mode is None
        and layer.activation is keras.activations.linear
        and x.dtype is getattr(torch, layer.compute_dtype)
        and not (layer._forward_hooks or layer._forward_pre_hooks)
        and not (layer._backward_hooks or layer._backward_pre_hooks)
        and not torch.nn.modules.module._has_any_global_hook()
    )
    # `layer.kernel` is the same, after it has asked for each kind of quantization.
    kernel = layer._kernel.value if plain else None
    if kernel is None or kernel.dtype != x.dtype:
        return layer(x)
    bias = None if layer.bias is None else layer.bias.value.reshape(-1)
    new = kernel.shape[mapped:]
    matrix = kernel.reshape(math.prod(kernel.shape[:mapped]), -1).t()
    out = F.linear(x if mapped == 1 else x.flatten(-mapped), matrix, bias)
    return out if len(new) == 1 else out.unflatten(-1, new)


def called(layer: Any, *given: Any, **options: Any) -> Any:
    """`layer.call` where what Keras does around it changes nothing.

    Around a step of a cell it takes longer than the step.
    """
    if _is_plain(layer) and all(_is_ready(x, layer.compute_dtype) for x in given):
        return layer.call(*given, **options)
    return layer(*given, **options)


def _is_plain(layer: Any) -> bool:
    """Whether a layer is one of Keras' own to which nothing was added."""
    if type(layer) not in _PLAIN or not layer.built:
        return False
    if layer.compute_dtype != layer.variable_dtype or layer.activity_regularizer:
        return False
    if layer._remat_mode or _is_hooked(layer):
        return False
    if getattr(layer, "quantization_mode", None) is not None:
        return False
    # There is no public name for what the layers around this one ask weights to be.
    scope = get_autocast_scope()
    return scope is None or scope.dtype in (None, layer.compute_dtype)


def _is_hooked(layer: Any) -> bool:
    """Whether torch is to call something before or after the layer, or its gradient."""
    return bool(
        layer._forward_hooks
        or layer._forward_pre_hooks
        or layer._backward_hooks
        or layer._backward_pre_hooks
        or torch.nn.modules.module._has_any_global_hook()
    )


def _is_ready(x: Any, dtype: str) -> bool:
    if isinstance(x, (list, tuple)):
        return all(_is_ready(one, dtype) for one in x)
    known = isinstance(x, torch.Tensor) and not is_traced(x)
    return known and x.dtype is getattr(torch, dtype)
