"""Kernels in `keras.ops` alone, for every backend without better ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.ops import masks, normalizers
from keras_attention.ops.axes import grouped_matmul
from keras_attention.ops.precision import wide

Tensor = Any


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    is_causal: bool,
    bias: Tensor | None = None,
) -> Tensor:
    """Two batched products over contiguous heads; see `ops.dot_product_attention`."""
    q = ops.transpose(ops.multiply(query, scale), (0, 2, 1, 3))  # (B, H, T, E)
    k = ops.transpose(key, (0, 2, 3, 1))  # (B, G, E, S)
    v = ops.transpose(value, (0, 2, 1, 3))  # (B, G, S, V)
    if is_causal:
        mask = masks.merge(mask, masks.causal(ops.shape(q)[2], ops.shape(v)[2]))
    scores = grouped_matmul(q, k)  # (B, H, T, S)
    scores = scores if bias is None else wide(scores) + wide(bias)
    weights = ops.cast(normalizers.softmax(scores, mask), v.dtype)
    return ops.transpose(grouped_matmul(weights, v), (0, 2, 1, 3))  # (B, T, H, V)


def dense(layer: Any, x: Tensor, mapped: int) -> Tensor:
    """The layer's own call."""
    return layer(x)


def word_counts(tokens: Tensor, weights: Tensor, size: int) -> Tensor:
    """One comparison a word, which XLA fuses into a single pass; L must be static."""
    words = ops.arange(size, dtype=tokens.dtype)
    return sum(
        ops.where(tokens[..., i, None] == words, weights[..., i, None], 0)
        for i in range(tokens.shape[-1])
    )  # (..., V)


def lookup(query: Tensor, table: Tensor, count: Any) -> Tensor | None:
    """None: nothing here is better than a chunk of the table after the other."""
    return None


def called(layer: Any, *given: Any, **options: Any) -> Any:
    """The layer as it is: what is compiled meets Keras once."""
    return layer(*given, **options)


def takes_training(layer: Any) -> bool:
    """Whether `layer.call` has an argument `training`."""
    return layer._call_has_training_arg  # as `keras.layers.RNN` asks; no public name


def carried_mask(x: Any) -> Any:
    """The mask that Keras has hung on a tensor, or None."""
    return getattr(x, "_keras_mask", None)  # Keras hands it to `call` alone


def scan(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """A loop in Python: one step after the other, of a length that is known."""
    length = keras.tree.flatten(inputs)[0].shape[0]
    if length is None:
        raise ValueError(
            "A loop over time needs to know its length on this backend. "
            "Received: inputs whose length (axis 0) is None"
        )
    outputs = []
    for t in range(length):
        state, output = step(state, keras.tree.map_structure(lambda x: x[t], inputs))  # noqa: B023
        outputs.append(output)
    return state, keras.tree.map_structure(lambda *y: ops.stack(y), *outputs)


def segments(step: Callable, state: Any, inputs: Any) -> tuple[Any, Any]:
    """A scan of scans: there are no gradients on these backends."""
    return scan(lambda state, now: scan(step, state, now), state, inputs)


def is_open(length: Any) -> bool:
    """False: no export unrolls a loop here."""
    return False


def ascending(x: Tensor) -> Tensor:
    """Keras' `argsort`; NumPy must be told to leave what is equal in its order."""
    x = ops.convert_to_tensor(x)
    if isinstance(x, np.ndarray):
        return np.argsort(x, axis=-1, kind="stable").astype("int32")
    return ops.argsort(x, axis=-1)


def any_left(moving: Tensor) -> Any:
    """Whether any is True."""
    return ops.any(moving)


def is_traced(tensor: Tensor) -> bool:
    """Whether the tensor is symbolic; nothing is compiled on these backends."""
    return isinstance(tensor, keras.KerasTensor)
