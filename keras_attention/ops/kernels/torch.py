"""Kernels for torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import torch
import torch.nn.functional as F
from keras.src.backend.common.variables import get_autocast_scope
from torch.utils.checkpoint import checkpoint

from keras_attention.ops import masks
from keras_attention.ops.kernels import generic, tiled

Tensor = Any

ascending = generic.ascending

CHUNKED = 2**20  # T · S from which on a causal mask beside another one is cut
CHUNK = 512  # queries


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    bias: Tensor | None = None,
) -> Tensor:
    """torch's own fused attention, on strided views of the heads."""
    if any(isinstance(x, keras.KerasTensor) for x in (query, key, value)):
        return generic.dot_product_attention(
            query, key, value, mask, scale, is_causal, bias
        )
    given = (query, key, value)
    if not all(isinstance(x, torch.Tensor) for x in given):
        given = tuple(keras.ops.convert_to_tensor(x) for x in given)
    q, k, v = (x.transpose(1, 2) for x in given)  # (B, H, ·, E)
    more = {"scale": scale, "enable_gqa": bool(q.shape[1] != k.shape[1])}
    if mask is None and bias is None:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, **more)
        return out.transpose(1, 2)  # (B, T, H, V)
    if is_causal and _chunks_pay(q, k, bias):
        return _in_chunks(q, k, v, mask, bias, more).transpose(1, 2)
    if is_causal:
        mask = masks.merge(mask, masks.causal(q.shape[2], k.shape[2]))
    return _masked(q, k, v, mask, bias, more).transpose(1, 2)


def _masked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    more: dict[str, Any],
) -> Tensor:
    """Of heads (B, H, ·, E), with a mask or a bias that broadcasts to (B, H, T, S)."""
    added = None if bias is None else bias.to(q.dtype)
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=added, **more)
    # A row of nothing but masked scores has no softmax. It is opened, computed and
    # zeroed, so that neither it nor its gradient can hold a NaN.
    alive = mask.any(dim=-1, keepdim=True)
    if torch.is_grad_enabled():
        q = torch.where(alive, q, torch.zeros_like(q))
    seen = mask | ~alive
    if added is not None:
        seen = torch.where(seen, added, float("-inf"))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, **more)
    if torch.is_grad_enabled():
        return torch.where(alive, out, torch.zeros_like(out))
    return out.masked_fill_(~alive, 0)


def _chunks_pay(q: Tensor, k: Tensor, bias: Tensor | None) -> bool:
    """Whether a causal mask beside another one, all at once, would be too large."""
    learned = bias is not None and bias.requires_grad
    return not learned and not is_traced(q) and q.shape[2] * k.shape[2] >= CHUNKED


def _in_chunks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    more: dict[str, Any],
) -> Tensor:
    """Causal: some queries at a time, with the keys and the masks that they need.

    The masks of each chunk are made anew for the gradient.
    """

    def one(q: Tensor, k: Tensor, v: Tensor, chunk: tiled.Segment) -> Tensor:
        t = torch.arange(chunk.start, chunk.stop, device=q.device)[:, None]
        ahead = t >= torch.arange(chunk.keys, device=q.device)
        seen = masks.merge(tiled.part(mask, chunk), ahead[None, None])
        return _masked(q, k, v, seen, tiled.part(bias, chunk), more)

    (queries, keys), found = (q.shape[2], k.shape[2]), []
    for start in range(0, queries, CHUNK):
        stop = min(start + CHUNK, queries)
        chunk = tiled.Segment(start, stop, min(stop, keys), 1)
        given = q[:, :, start:stop], k[:, :, : chunk.keys], v[:, :, : chunk.keys]
        if any(x.requires_grad for x in given) and torch.is_grad_enabled():
            found.append(checkpoint(one, *given, chunk, use_reentrant=False))
        else:
            found.append(one(*given, chunk))
    return torch.cat(found, 2)


def dense(layer: Any, x: Tensor, mapped: int) -> Tensor:
    """The product and the sum alone, where Keras' layer does nothing else.

    What is around them takes longer than they do, of a few words.
    """
    kernel = _plain_kernel(layer, x)
    if kernel is None:
        return layer(x)
    bias = None if layer.bias is None else layer.bias.value.reshape(-1)
    new = kernel.shape[mapped:]
    matrix = kernel.reshape(math.prod(kernel.shape[:mapped]), -1).t()
    out = F.linear(x if mapped == 1 else x.flatten(-mapped), matrix, bias)
    return out if len(new) == 1 else out.unflatten(-1, new)


def _plain_kernel(layer: Any, x: Tensor) -> Tensor | None:
    """The kernel of an `EinsumDense`, if its product and bias are all there is."""
    if type(layer) is not keras.layers.EinsumDense or not isinstance(x, torch.Tensor):
        return None
    if layer.lora_enabled or layer.quantization_mode is not None:
        return None
    if layer.activation is not keras.activations.linear or layer.activity_regularizer:
        return None
    if _is_hooked(layer):
        return None
    if x.dtype is not getattr(torch, layer.compute_dtype):
        return None
    # `layer.kernel` is the same, after it has asked for each kind of quantization.
    kernel = layer._kernel.value
    return kernel if kernel.dtype == x.dtype else None


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
    own = any(getattr(layer, name) for name in _HOOKS)
    return own or torch.nn.modules.module._has_any_global_hook()


def _is_ready(x: Any, dtype: str) -> bool:
    if isinstance(x, (list, tuple)):
        return all(_is_ready(one, dtype) for one in x)
    known = isinstance(x, torch.Tensor) and not is_traced(x)
    return known and x.dtype is getattr(torch, dtype)


_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
_PLAIN = {
    keras.layers.Dense,
    keras.layers.LSTMCell,
    keras.layers.GRUCell,
    keras.layers.SimpleRNNCell,
}


def word_counts(tokens: Tensor, weights: Tensor, size: int) -> Tensor:
    """Adds each word's weight at its place."""
    counts = weights.new_zeros((*tokens.shape[:-1], size))
    return counts.scatter_add(-1, tokens.long(), weights)  # (..., V)


def lookup(query: Tensor, table: Tensor, count: Any) -> Tensor | None:
    """torch's fused attention, which holds some scores at a time and no more."""
    if not isinstance(table, torch.Tensor) or table.dtype != query.dtype:
        return None
    if query.is_cuda and (query.dtype != torch.float32 or query.shape[-1] % 4):
        return None  # what is left there holds all scores
    patterns = table[: int(count)][None, None]
    found = F.scaled_dot_product_attention(
        query[None, None], patterns, patterns, scale=1.0
    )
    return found[0, 0]


def scan(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """A loop in Python over views of the inputs, stacked once behind it.

    Structures are taken apart in plain Python: a step is short, and `keras.tree` would
    take as long.
    """
    views = _mapped(lambda x: _Views(keras.ops.convert_to_tensor(x).unbind(0)), inputs)
    length = len(keras.tree.flatten(views)[0].each)
    outputs = []
    for t in range(length):
        state, output = step(state, _mapped(lambda x, t=t: x.each[t], views))
        outputs.append(output)
    return state, _mapped(lambda *y: torch.stack(y), *outputs)


def segments(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """`torch.utils.checkpoint` of each segment, where there are gradients."""

    def segment(state: Any, now: Any) -> tuple[Any, Any]:
        if not torch.is_grad_enabled():
            return scan(step, state, now)
        return checkpoint(
            scan, step, state, now, use_reentrant=False, preserve_rng_state=False
        )

    return scan(segment, state, inputs)


class _Views:
    """All steps of one input: a leaf of a structure, as a tuple would not be."""

    def __init__(self, each: tuple[Tensor, ...]) -> None:
        self.each = each


def _mapped(function: Callable, *structures: Any) -> Any:
    """`keras.tree.map_structure` of dicts, lists and (named) tuples."""
    first = structures[0]
    if isinstance(first, dict):
        return {k: _mapped(function, *(s[k] for s in structures)) for k in first}
    if isinstance(first, (list, tuple)):
        items = [_mapped(function, *parts) for parts in zip(*structures)]
        named = hasattr(first, "_fields")
        return type(first)(*items) if named else type(first)(items)
    return function(*structures)


def is_open(length: Any) -> bool:
    """True while an export is traced whose length is symbolic, or 1.

    Keras' exports trace what is left open by an example of one step.
    """
    if not (torch.jit.is_tracing() or torch.compiler.is_exporting()):
        return False
    return isinstance(length, torch.SymInt) or int(length) == 1


def any_left(moving: Tensor) -> Any:
    """True while an export is traced: its loop would end where the example's ends."""
    return True if is_traced(moving) else moving.any()


def is_traced(tensor: Tensor) -> bool:
    """Whether the tensor is symbolic or inside a compiled or exported function."""
    return (
        isinstance(tensor, keras.KerasTensor)
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or keras.ops.convert_to_tensor(tensor).is_meta
    )
