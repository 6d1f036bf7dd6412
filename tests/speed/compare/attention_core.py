"""The fused core `ops.dot_product_attention` with its options.

The peers are `keras.ops.dot_product_attention` ("keras.ops") and, on torch,
`torch.nn.functional.scaled_dot_product_attention` ("torch"). TensorFlow also runs with
XLA.

`attention_long` measures the memory of a forward and backward pass at T = 4,096. With
longer sequences, `keras.ops` would run out of memory. The following command measures
one call of only our core, at T = 16,384 or another `--length`:

    python tests/speed memory core --backend jax
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from speed.compare import attention, backends
from speed.harness import SEED, Case, Contestants

SIZES = {"B": 2, "H": 8, "E": 64}
LONG = {"B": 1, "H": 8, "E": 64, "T": 4096, "mode": "fwd+bwd"}
MASKS = ("none", "causal", "padding")
EVERY = ("jax", "torch", "tensorflow")


def cases() -> tuple[Case, ...]:
    """Returns cases with heads in the layout (B, T, H, E)."""
    every = [
        {**SIZES, "T": length, "mask": mask, "mode": mode}
        for mode in attention.MODES
        for mask in MASKS
        for length in attention.LENGTHS
    ]
    compiled = [{**sizes, "compiler": "xla"} for sizes in every]
    return (
        *(_case("attention_core", sizes) for sizes in every),
        *(_case("attention_core", sizes, ("tensorflow",)) for sizes in compiled),
    )


def long_cases() -> tuple[Case, ...]:
    """Returns the case with one long sequence."""
    return (
        _case("attention_long", {**LONG, "mask": "none"}),
        _case("attention_long", {**LONG, "mask": "causal"}),
        _case(
            "attention_long",
            {**LONG, "mask": "none", "compiler": "xla"},
            ("tensorflow",),
        ),
    )


def _case(name: str, sizes: dict[str, Any], only: tuple[str, ...] = EVERY) -> Case:
    return Case(
        name=name,
        sizes=sizes,
        make=lambda backend: make(sizes, backend),
        steps=attention.steps(sizes),
        tolerance=1e-4,
        quick=sizes["T"] in attention.QUICK and sizes["mask"] == "none",
        amount=(sizes["B"] * sizes["T"], "tokens"),
        backends=only,
    )


def padding(batch: int, length: int) -> np.ndarray:
    """Returns a mask (B, T). Every second sequence ends with a quarter of padding."""
    lengths = np.where(np.arange(batch) % 2, length - length // 4, length)
    return np.arange(length) < lengths[:, None]


def make(sizes: dict[str, Any], backend: str) -> Contestants:
    from keras import ops

    generator = np.random.default_rng(SEED)
    shape = tuple(sizes[name] for name in "BTHE")
    *arguments, cotangent = (
        ops.convert_to_tensor(generator.standard_normal(shape, dtype="float32"))
        for _ in range(4)
    )
    xla = sizes.get("compiler") == "xla"
    calls, memory = {}, {}
    for name, function in _functions(sizes, backend).items():
        if sizes["mode"] == "fwd":
            call, scratch = backends.compiled(function, arguments, backend, xla)
        else:
            call, scratch = backends.compiled_with_gradients(
                function, arguments, cotangent, backend, xla
            )
        calls[name] = call
        if scratch is not None:
            memory[name] = scratch
    return Contestants(calls=calls, memory=memory)


def _functions(sizes: dict[str, Any], backend: str) -> dict[str, Callable[..., Any]]:
    from keras import ops as keras_ops

    from keras_attention import ops

    causal, mask = sizes["mask"] == "causal", None
    if sizes["mask"] == "padding":
        mask = padding(sizes["B"], sizes["T"])[:, None, None]  # (B, 1, 1, T)
        mask = keras_ops.convert_to_tensor(mask)

    def ours(query: Any, key: Any, value: Any) -> Any:
        out = ops.dot_product_attention(query, key, value, mask, is_causal=causal)
        return {"output": out}

    def theirs(query: Any, key: Any, value: Any) -> Any:
        seen = mask
        if mask is not None:  # the size of the mask in Keras' layer
            shape = (sizes["B"], 1, sizes["T"], sizes["T"])
            seen = keras_ops.broadcast_to(mask, shape)
        out = keras_ops.dot_product_attention(
            query, key, value, mask=seen, is_causal=causal
        )
        return {"output": out}

    def torchs(query: Any, key: Any, value: Any) -> Any:
        from torch.nn.functional import scaled_dot_product_attention

        heads = (x.transpose(1, 2) for x in (query, key, value))  # (B, H, T, E)
        out = scaled_dot_product_attention(*heads, attn_mask=mask, is_causal=causal)
        return {"output": out.transpose(1, 2)}

    functions = {"ours": ours, "keras.ops": theirs}
    if backend == "torch":
        functions["torch"] = torchs
    return functions
