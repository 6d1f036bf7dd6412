"""Mask objects, against the same call with a boolean array (B, 1, T, T).

`texts` is `Causal() & Segments(ids)` with 8 texts of equal length in a row. `causal`
and `window` are objects that our kernels know as `is_causal` and `sliding_window`; the
peer "options" passes these options, and should take the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from speed.compare import attention, backends
from speed.harness import SEED, Case, Contestants

SIZES = {"B": 1, "H": 8, "E": 64, "T": 4096}
MASKS = ("texts", "causal", "window")
TEXTS, WINDOW = 8, 256


def cases() -> tuple[Case, ...]:
    """Returns a case for each mask and mode. TensorFlow also runs with XLA."""
    every = [{**SIZES, "mask": m, "mode": x} for m in MASKS for x in attention.MODES]
    compiled = [{**sizes, "compiler": "xla"} for sizes in every]
    return (
        *(_case(sizes, ("jax", "torch", "tensorflow")) for sizes in every),
        *(_case(sizes, ("tensorflow",)) for sizes in compiled),
    )


def _case(sizes: dict[str, Any], only: tuple[str, ...]) -> Case:
    return Case(
        name="attention_masks",
        sizes=sizes,
        make=lambda backend: make(sizes, backend),
        steps=attention.steps(sizes),
        tolerance=1e-4,
        amount=(sizes["B"] * sizes["T"], "tokens"),
        backends=only,
    )


def make(sizes: dict[str, Any], backend: str) -> Contestants:
    from keras import ops as keras_ops

    from keras_attention import masks

    generator = np.random.default_rng(SEED)
    shape = tuple(sizes[name] for name in "BTHE")
    *arguments, cotangent = (
        keras_ops.convert_to_tensor(generator.standard_normal(shape, dtype="float32"))
        for _ in range(4)
    )
    length = sizes["T"]
    options: dict[str, Any] = {"is_causal": True}
    mask: Any = masks.Causal()
    if sizes["mask"] == "texts":
        ids = np.arange(length) * TEXTS // length + 1
        mask &= masks.Segments(np.broadcast_to(ids, shape[:2]).astype("int32"))
    elif sizes["mask"] == "window":
        mask &= masks.Window(WINDOW)
        options["sliding_window"] = WINDOW
    if sizes["mask"] == "texts":
        peer = {"array": {"mask": mask.array(length)[:, None]}}  # (B, 1, T, T)
    else:
        peer = {"options": options}
    xla = sizes.get("compiler") == "xla"
    calls, memory = {}, {}
    for name, chosen in {"ours": {"mask": mask}, **peer}.items():
        function = _function(chosen)
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


def _function(options: dict[str, Any]) -> Callable[..., Any]:
    from keras_attention import ops

    def call(query: Any, key: Any, value: Any) -> Any:
        return {"output": ops.dot_product_attention(query, key, value, **options)}

    return call
