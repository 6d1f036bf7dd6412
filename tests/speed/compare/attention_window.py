"""Causal self-attention in a sliding window: time and memory grow linearly with T.

The layer is `MultiHeadAttention` with its projections. The gradients are with respect
to the input and the weights. No peer can run: the mask and the scores of all pairs
would take 4 and 137 GB. The layer is compared with itself on a quarter of the sequence;
a ratio of 0.25 means that the time is linear in T. The following command measures the
memory of one call in its own process:

    python tests/speed memory window --backend jax
"""

from __future__ import annotations

from typing import Any

import numpy as np

from speed.compare import attention, multi_head
from speed.harness import SEED, Case, Contestants, Step

SIZES = {"B": 1, "H": 8, "D": 512, "T": 65536, "window": 256}


def cases() -> tuple[Case, ...]:
    """Returns the case with one long sequence."""
    sizes: dict[str, int | str] = {**SIZES, "extra": "causal", "mode": "fwd+bwd"}
    return (
        Case(
            name="attention_window",
            sizes=sizes,
            make=lambda backend: _make(sizes, backend),
            steps=_steps(sizes),
            tolerance=1e-4,
        ),
    )


def _steps(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """Counts four projections with gradients, and the pairs inside the window."""
    width, rows = sizes["D"], sizes["B"] * sizes["T"]
    moved = attention.FLOAT * (2 * rows * width + width * width)
    flops = 2 * rows * width * width
    products = [Step(flops, moved, (1, rows, width, width))] * 8
    products += [Step(flops, moved, (1, width, rows, width))] * 4
    flops = 2 * rows * width * sizes["window"]
    batch, heads = sizes["T"] // sizes["window"], sizes["H"]
    shape = (batch * heads, sizes["window"], width // heads, sizes["window"])
    return (*products, *[Step(flops, moved, shape)] * 6)


def _make(sizes: dict[str, Any], backend: str) -> Contestants:
    short = {**sizes, "T": sizes["T"] // 4}
    calls = {"ours": call(sizes, backend), "a quarter of T": call(short, backend)}
    return Contestants(calls=calls, check=lambda: {"a quarter of T": float("nan")})


def call(sizes: dict[str, Any], backend: str) -> Any:
    import keras
    from keras import ops

    from keras_attention.layers import MultiHeadAttention

    generator = np.random.default_rng(SEED)
    shape = tuple(sizes[name] for name in "BTD")
    inputs, cotangent = (
        ops.convert_to_tensor(generator.standard_normal(shape, dtype="float32"))
        for _ in range(2)
    )
    keras.utils.set_random_seed(SEED)
    heads, width, window = sizes["H"], sizes["D"], sizes["window"]
    layer = MultiHeadAttention(heads, width // heads, sliding_window=window)
    layer.build(shape, shape)
    return multi_head.contestant(layer, sizes, backend, inputs, cotangent, None)
