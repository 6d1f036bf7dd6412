"""Calls of Keras layers on torch without the overhead of `__call__`."""

from __future__ import annotations

import math
from typing import Any

import keras
import torch
import torch.nn.functional as F
from keras.src.backend.common.variables import get_autocast_scope

Tensor = Any
_PLAIN = {
    keras.layers.Dense,
    keras.layers.LSTMCell,
    keras.layers.GRUCell,
    keras.layers.SimpleRNNCell,
}


class _MappedAxes(dict):
    """How many last axes (equation, biased axes) maps; 0 if not all, in their order.

    Other equations, such as "abc,dec->abde" with a transposed kernel, need the layer.
    """

    def __missing__(self, key: tuple[str, str | None]) -> int:
        equation, bias_axes = key
        inputs, kernel, outputs = equation.replace("->", ",").split(",")
        mapped = sum(axis not in outputs for axis in inputs)
        kept, new = inputs[: len(inputs) - mapped], kernel[mapped:]
        plain = kept + kernel[:mapped] == inputs and kept + new == outputs
        self[key] = mapped if plain and bias_axes in (None, new) else 0
        return self[key]


_mapped_axes = _MappedAxes()


def dense(layer: Any, x: Tensor) -> Tensor:
    """Computes the product and the sum directly if the layer does nothing else.

    For short inputs, the overhead of Keras dominates.
    """
    plain = (
        type(layer) is keras.layers.EinsumDense
        and isinstance(x, torch.Tensor)
        and not (layer.lora_enabled or layer.activity_regularizer)
        and layer.quantization_mode is None
        and layer.activation is keras.activations.linear
        and x.dtype is getattr(torch, layer.compute_dtype)
        and _mapped_axes[layer.equation, layer.bias_axes]
        and not (layer._forward_hooks or layer._forward_pre_hooks)
        and not (layer._backward_hooks or layer._backward_pre_hooks)
        and not torch.nn.modules.module._has_any_global_hook()
    )
    # `layer.kernel` returns the same tensor, but first checks each quantization mode.
    kernel = layer._kernel.value if plain else None
    if kernel is None or kernel.dtype != x.dtype:
        return layer(x)
    bias = None if layer.bias is None else layer.bias.value.reshape(-1)
    mapped = _mapped_axes[layer.equation, layer.bias_axes]
    new = kernel.shape[mapped:]
    matrix = kernel.reshape(math.prod(kernel.shape[:mapped]), -1).t()
    out = F.linear(x if mapped == 1 else x.flatten(-mapped), matrix, bias)
    # Not `unflatten`: its ONNX export fixes the sizes of the traced example.
    return out if len(new) == 1 else out.reshape(*out.shape[:-1], *new)


def normalize(layer: Any, x: Tensor) -> Tensor:
    """Calls the layer, or computes its equation in a trace for ONNX.

    The exporter supports neither of Keras' normalizations if a size is open.
    """
    centers = type(layer) is keras.layers.LayerNormalization
    known = centers or type(layer) is keras.layers.RMSNormalization
    if not (known and torch.jit.is_tracing()):
        return layer(x)
    z = x - x.mean(-1, keepdim=True) if centers else x
    z = z * torch.rsqrt(z.square().mean(-1, keepdim=True) + layer.epsilon)
    scale, shift = (layer.gamma, layer.beta) if centers else (layer.scale, None)
    z = z if scale is None else z * scale.value
    return z if shift is None else z + shift.value


def call_layer(layer: Any, *inputs: Any, **options: Any) -> Any:
    """Calls `layer.call` directly if the wrapper of Keras has no effect.

    For a single step of a cell, the wrapper takes longer than the step.
    """
    plain = (
        type(layer) in _PLAIN
        and layer.built
        and layer.compute_dtype == layer.variable_dtype
        and not (layer.activity_regularizer or layer._remat_mode)
        and getattr(layer, "quantization_mode", None) is None
        and not (layer._forward_hooks or layer._forward_pre_hooks)
        and not (layer._backward_hooks or layer._backward_pre_hooks)
        and not torch.nn.modules.module._has_any_global_hook()
        and not (torch.jit.is_tracing() or torch.compiler.is_compiling())
    )
    if plain:
        # No public API returns the dtype that outer layers request for weights.
        scope = get_autocast_scope()
        plain = scope is None or scope.dtype in (None, layer.compute_dtype)
    if plain:
        dtype = getattr(torch, layer.compute_dtype)
        if all(
            isinstance(x, torch.Tensor) and x.dtype is dtype and not x.is_meta
            for group in inputs
            for x in (group if isinstance(group, (list, tuple)) else (group,))
        ):
            return layer.call(*inputs, **options)
    return layer(*inputs, **options)
