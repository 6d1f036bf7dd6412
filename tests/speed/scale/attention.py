"""Attention over T tokens: the fused core, and a layer with a sliding window."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from speed.compare import backends
from speed.harness import SEED
from speed.scale.curve import Call, Curve, Series

WIDTH, WINDOW = 64, 256
LENGTHS = (128, 512, 2048, 8192, 16_384, 32_768, 65_536)
QUICK = (128, 256)


def attention_curve() -> Curve:
    """Returns the curve of `ops.dot_product_attention` with one head."""
    return Curve(
        "attention",
        "tokens T",
        LENGTHS,
        QUICK,
        f"ops.dot_product_attention, one sequence, one head of width {WIDTH}",
        tuple(
            Series(f"{name}, {mode}", partial(_core, causal, mode), mode != FORWARD)
            for name, causal in (("all keys", False), ("causal", True))
            for mode in MODES
        ),
    )


def window_curve() -> Curve:
    """Returns the curve of `MultiHeadAttention` with and without a window."""
    return Curve(
        "window",
        "tokens T",
        LENGTHS,
        QUICK,
        f"causal MultiHeadAttention, one sequence, one head of width {WIDTH}",
        tuple(
            Series(f"{name}, {mode}", partial(_layer, window, mode), mode != FORWARD)
            for name, window in ((f"window of {WINDOW}", WINDOW), ("no window", None))
            for mode in MODES
        ),
    )


FORWARD = "forward"
MODES = (FORWARD, "with gradients")


def _core(causal: bool, mode: str, length: int, backend: str) -> Call:
    from keras_attention import ops

    def attend(query: Any, key: Any, value: Any) -> Any:
        out = ops.dot_product_attention(query, key, value, is_causal=causal)
        return {"output": out}

    return call_of(attend, (1, length, 1, WIDTH), mode, backend)


def _layer(window: int | None, mode: str, length: int, backend: str) -> Call:
    import keras

    from keras_attention.layers import MultiHeadAttention

    keras.utils.set_random_seed(SEED)
    layer = MultiHeadAttention(1, WIDTH, sliding_window=window)
    shape = (1, length, WIDTH)
    layer.build(shape, shape)

    def attend(query: Any, key: Any, value: Any) -> Any:
        return {"output": layer(query, value, key, use_causal_mask=True)}

    return call_of(attend, shape, mode, backend)


def call_of(
    function: Callable[..., Any], shape: tuple[int, ...], mode: str, backend: str
) -> Call:
    """Returns a call of the compiled function, with gradients of its inputs or not."""
    from keras import ops

    generator = np.random.default_rng(SEED)
    *arguments, cotangent = (
        ops.convert_to_tensor(generator.standard_normal(shape, dtype="float32"))
        for _ in range(4)
    )
    if mode == FORWARD:
        return backends.compiled(function, arguments, backend)[0]
    return backends.compiled_with_gradients(function, arguments, cotangent, backend)[0]
