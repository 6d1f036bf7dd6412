"""The gated delta rule in chunks, compared with a scan of its step.

The query, key and value have gradients; the strengths and the decays are constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from speed.compare import attention
from speed.harness import SEED, Case, Contestants, Step

SIZES = {"B": 1, "H": 8, "E": 64}
LENGTHS = (256, 2048)
DECAYS = {"none": None, "head": (), "channel": (SIZES["E"],)}


def cases() -> tuple[Case, ...]:
    """Returns cases for each decay, length and mode."""
    return tuple(
        _case({**SIZES, "T": length, "decay": decay, "mode": mode})
        for decay in DECAYS
        for length in LENGTHS
        for mode in attention.MODES
    )


def _case(sizes: dict[str, Any]) -> Case:
    return Case(
        name="fast_weights",
        sizes=sizes,
        make=lambda backend: _make(sizes, backend),
        steps=_work(sizes),
        tolerance=1e-4,
        quick=sizes["T"] == LENGTHS[0] and sizes["decay"] == "head",
    )


def _work(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """Counts what a loop needs: each step reads, erases and writes one memory."""
    heads, width = sizes["B"] * sizes["H"], sizes["E"]
    flops = 2 * heads * sizes["T"] * width * width
    moved = attention.FLOAT * heads * sizes["T"] * width
    products = [Step(flops, moved, (heads, sizes["T"], width, width))] * 3
    return tuple(products * (3 if sizes["mode"] == "fwd+bwd" else 1))


def _make(sizes: dict[str, Any], backend: str) -> Contestants:
    from keras import ops as keras_ops

    from keras_attention import ops

    generator = np.random.default_rng(SEED)
    shape = tuple(sizes[name] for name in "BTHE")
    strength = generator.uniform(size=shape[:3]).astype("float32")
    gates = {"erase": keras_ops.convert_to_tensor(strength)}
    width = DECAYS[sizes["decay"]]
    if width is not None:
        decay = -0.1 * generator.uniform(size=(*shape[:3], *width)).astype("float32")
        gates["log_decay"] = keras_ops.convert_to_tensor(decay)

    def normalized(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
        return query * shape[-1] ** -0.5, keras_ops.normalize(key, axis=-1), value

    def chunks(*tensors: Any) -> dict[str, Any]:
        return {"output": ops.delta_rule(*normalized(*tensors), **gates)[0]}

    def scan(*tensors: Any) -> dict[str, Any]:
        def step(state: Any, now: list) -> tuple[Any, Any]:
            options = dict(zip(gates, now[3:]))
            rule = ops.fast_weights.delta_rule_step
            query, key, value = now[:3]
            return rule(query, key, value, state, **options)[::-1]

        inputs = [*normalized(*tensors), *gates.values()]
        inputs = [keras_ops.swapaxes(x, 0, 1) for x in inputs]
        state = keras_ops.zeros((shape[0], *shape[2:], shape[3]))
        _, outputs = ops.loop.scan(step, state, inputs)
        return {"output": keras_ops.swapaxes(outputs, 0, 1)}

    functions = {"ours": chunks, "scan of steps": scan}
    return attention._contestants(functions, shape, sizes, backend)
