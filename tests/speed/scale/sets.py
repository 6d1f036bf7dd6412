"""Attention within a set of S elements, through inducing points and directly."""

from __future__ import annotations

from functools import partial
from typing import Any

from speed.harness import SEED
from speed.scale.attention import FORWARD, MODES, call_of
from speed.scale.curve import Call, Curve, Series

WIDTH, HEADS, POINTS = 64, 4, 32
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)


def sets_curve() -> Curve:
    """Returns the curve of `InducedSetAttention` and of `TransformerEncoderBlock`."""
    return Curve(
        "sets",
        "elements S",
        SIZES,
        (1_000, 2_000),
        f"one set, width {WIDTH}, {HEADS} heads, {POINTS} inducing points",
        tuple(
            Series(f"{name}, {mode}", partial(_layer, name, mode), mode != FORWARD)
            for name in ("ISAB", "SAB")
            for mode in MODES
        ),
    )


def _layer(name: str, mode: str, elements: int, backend: str) -> Call:
    import keras

    from keras_attention.layers import InducedSetAttention, TransformerEncoderBlock

    keras.utils.set_random_seed(SEED)
    layer: Any = TransformerEncoderBlock(HEADS, WIDTH)
    if name == "ISAB":
        layer = InducedSetAttention(POINTS, HEADS, WIDTH)
    shape = (1, elements, WIDTH)
    layer.build(shape)

    def attend(query: Any, key: Any, value: Any) -> Any:
        return {"output": layer(query + key + value)}  # each has a gradient

    return call_of(attend, shape, mode, backend)
