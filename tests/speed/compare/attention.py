"""Dot-product attention with returned weights, compared with Keras.

The peers are `keras.ops.dot_product_attention` ("keras.ops"), which returns no weights,
and the layer `keras.layers.Attention` ("keras.layers").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from speed.compare import backends
from speed.harness import SEED, Case, Contestants, Step

LENGTHS = (16, 64, 128, 256, 512, 1024, 2048)
QUICK = (16, 256)
MODES = ("fwd", "fwd+bwd")
FLOAT = 4  # bytes
EXPLICIT = {"B": 8, "D": 64}


def explicit_cases() -> tuple[Case, ...]:
    """Returns cases with one head, (B, T, D), that return the weights."""
    return tuple(
        _case({**EXPLICIT, "T": length, "mode": mode})
        for mode in MODES
        for length in LENGTHS
    )


def _case(sizes: dict[str, Any]) -> Case:
    return Case(
        name="attention_explicit",
        sizes=sizes,
        make=lambda backend: _make_explicit(sizes, backend),
        steps=steps(sizes),
        tolerance=1e-4,
        quick=sizes["T"] in QUICK,
    )


def steps(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """Counts two forward products and four backward products (dV, dP, dQ, dK).

    Query, key, value, output and their gradients are each read or written once. A
    function that returns the weights also writes them once, and reads them once in the
    backward pass.
    """
    length, width = sizes["T"], sizes["E" if "E" in sizes else "D"]
    batch = sizes["B"] * sizes.get("H", 1)
    flops = 2 * batch * length * length * width
    tensor = FLOAT * batch * length * width
    weights = 0 if "H" in sizes else FLOAT * batch * length * length
    scores, sums = (batch, length, width, length), (batch, length, length, width)
    found = [
        Step(flops, 2 * tensor, scores),  # q kᵀ
        Step(flops, 2 * tensor + weights, sums),  # weights · v
    ]
    if sizes["mode"] == "fwd+bwd":
        found += [
            Step(flops, 2 * tensor + weights, sums),  # dv
            Step(flops, tensor, scores),  # d weights
            Step(flops, 2 * tensor, sums),  # dq
            Step(flops, 2 * tensor, sums),  # dk
        ]
    return tuple(found)


def _contestants(
    functions: dict[str, Callable[..., Any]],
    shape: tuple[int, ...],
    sizes: dict[str, Any],
    backend: str,
) -> Contestants:
    """Compiles every function for the same query, key and value."""
    from keras import ops

    generator = np.random.default_rng(SEED)
    *arguments, cotangent = (
        ops.convert_to_tensor(generator.standard_normal(shape, dtype="float32"))
        for _ in range(4)
    )
    calls, memory = {}, {}
    for name, function in functions.items():
        if sizes["mode"] == "fwd":
            call, scratch = backends.compiled(function, arguments, backend)
        else:
            call, scratch = backends.compiled_with_gradients(
                function, arguments, cotangent, backend
            )
        calls[name] = call
        if scratch is not None:
            memory[name] = scratch
    return Contestants(calls=calls, memory=memory)


def _make_explicit(sizes: dict[str, Any], backend: str) -> Contestants:
    import keras
    from keras import ops as keras_ops

    from keras_attention import ops

    layer = keras.layers.Attention(score_mode="dot")
    scale = sizes["D"] ** -0.5

    def ours(query: Any, key: Any, value: Any) -> Any:
        output, weights = ops.attend(query, key, value)
        return {"output": output, "weights": weights}

    def keras_layer(query: Any, key: Any, value: Any) -> Any:
        inputs = [query * scale, value, key]
        output, weights = layer(inputs, return_attention_scores=True)
        return {"output": output, "weights": weights}

    def keras_fused(query: Any, key: Any, value: Any) -> Any:
        heads = (x[:, :, None, :] for x in (query, key, value))  # (B, T, 1, D)
        return {"output": keras_ops.dot_product_attention(*heads)[:, :, 0, :]}

    functions = {
        "ours": ours,
        "keras.layers": keras_layer,
        "keras.ops": keras_fused,
    }
    shape = (sizes["B"], sizes["T"], sizes["D"])
    return _contestants(functions, shape, sizes, backend)
