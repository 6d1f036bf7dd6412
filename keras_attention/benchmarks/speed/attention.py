"""Dot-product attention, fused and explicit, against Keras' and torch's own.

The peers are `keras.ops.dot_product_attention` ("keras.ops"), the layer
`keras.layers.Attention` ("keras.layers") and, on torch,
`torch.nn.functional.scaled_dot_product_attention` ("torch").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_attention.benchmarks.harness import SEED, Case, Contestants, Step
from keras_attention.benchmarks.speed import backends

LENGTHS = (16, 64, 128, 256, 512, 1024, 2048)
QUICK = (16, 256)
MODES = ("fwd", "fwd+bwd")
FLOAT = 4  # bytes
FUSED = {"B": 2, "H": 8, "E": 64}
EXPLICIT = {"B": 8, "D": 64}


def fused_cases() -> tuple[Case, ...]:
    """Heads in the layout (B, T, H, E), the weights not returned."""
    return _cases("attention_fused", FUSED, _make_fused)


def explicit_cases() -> tuple[Case, ...]:
    """One head, (B, T, D), the weights returned."""
    return _cases("attention_explicit", EXPLICIT, _make_explicit)


def _cases(
    name: str, sizes: dict[str, int], make: Callable[..., Contestants]
) -> tuple[Case, ...]:
    return tuple(
        _case(name, {**sizes, "T": length, "mode": mode}, make)
        for mode in MODES
        for length in LENGTHS
    )


def _case(name: str, sizes: dict[str, Any], make: Callable[..., Contestants]) -> Case:
    return Case(
        name=name,
        sizes=sizes,
        make=lambda backend: make(sizes, backend),
        steps=steps(sizes),
        tolerance=1e-4,
        quick=sizes["T"] in QUICK,
    )


def steps(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """Two products forwards; backwards dV, dP, dQ and dK, four more.

    Each of query, key, value, output and their gradients is moved once. An
    explicit form also writes the weights, and reads them once to go back.
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
    """Compiles each function at the same query, key and value."""
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


def _make_fused(sizes: dict[str, Any], backend: str) -> Contestants:
    from keras import ops as keras_ops

    from keras_attention import ops

    functions = {
        "ours": lambda q, k, v: {"output": ops.dot_product_attention(q, k, v)},
        "keras.ops": lambda q, k, v: {
            "output": keras_ops.dot_product_attention(q, k, v)
        },
    }
    if backend == "torch":
        functions["torch"] = _torch_fused
    shape = (sizes["B"], sizes["T"], sizes["H"], sizes["E"])
    return _contestants(functions, shape, sizes, backend)


def _torch_fused(query: Any, key: Any, value: Any) -> Any:
    from torch.nn.functional import scaled_dot_product_attention

    heads_first = (x.transpose(1, 2) for x in (query, key, value))  # (B, H, T, E)
    return {"output": scaled_dot_product_attention(*heads_first).transpose(1, 2)}


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
