"""Attention with the additive score, against Keras' own layer.

Both are given the queries and keys as a projection would leave them, and the vector
of the score; values are the keys. The peer is `keras.layers.AdditiveAttention`
("keras.layers"), whose variable is replaced by the same vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_attention.benchmarks.harness import SEED, Case, Contestants, Step
from keras_attention.benchmarks.speed import backends

MODES = ("fwd", "fwd+bwd")
SIZES = ({"B": 4, "T": 128, "U": 128}, {"B": 8, "T": 256, "U": 256})
FLOAT = 4  # bytes


def cases() -> tuple[Case, ...]:
    """As many queries as keys, T; gradients are those of all three tensors."""
    return tuple(_case({**sizes, "mode": mode}) for mode in MODES for sizes in SIZES)


def _case(sizes: dict[str, Any]) -> Case:
    return Case(
        name="additive",
        sizes=sizes,
        make=lambda backend: _make(sizes, backend),
        steps=_steps(sizes),
        tolerance=1e-4,
        quick=sizes["T"] == min(s["T"] for s in SIZES),
    )


def _steps(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """The pairs' units, which are no product, and the products with the values.

    Units cost nothing in this floor but the bytes of what they are made of, so that
    it lies far below what can be reached.
    """
    batch, length, width = (sizes[name] for name in "BTU")
    tensor, scores = FLOAT * batch * length * width, FLOAT * batch * length * length
    pairs, flops = batch * length * length * width, 2 * batch * length * length * width
    product = (batch, length, length, width)
    steps = [Step(5 * pairs, 2 * tensor + scores), Step(flops, 2 * tensor, product)]
    if sizes["mode"] == "fwd+bwd":
        back = (batch, length, width, length)
        steps += [
            Step(9 * pairs, 4 * tensor + scores),  # dq, dk and dv of the score
            Step(flops, 2 * tensor, back),  # d weights
            Step(flops, 2 * tensor, product),  # d values
        ]
    return tuple(steps)


def _make(sizes: dict[str, Any], backend: str) -> Contestants:
    from keras import ops

    batch, length, width = (sizes[name] for name in "BTU")
    generator = np.random.default_rng(SEED)
    *arguments, cotangent = (
        ops.convert_to_tensor(generator.standard_normal(shape, dtype="float32") * size)
        for shape, size in (
            ((batch, length, width), 1.0),  # q
            ((batch, length, width), 1.0),  # k
            ((width,), np.float32(width**-0.5)),  # v
            ((batch, length, width), 1.0),
        )
    )
    calls, memory = {}, {}
    for name, function in _functions(arguments).items():
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


def _functions(arguments: Any) -> dict[str, Callable[..., Any]]:
    import keras

    from keras_attention import ops
    from keras_attention.ops import scores

    layer = keras.layers.AdditiveAttention()
    layer.build([tuple(x.shape) for x in arguments[:2]])

    def ours(query: Any, key: Any, scale: Any) -> Any:
        def score(q: Any, k: Any) -> Any:
            return scores.additive(q, k, scale)

        return {"output": ops.attend(query, key, key, score)[0]}

    def theirs(query: Any, key: Any, scale: Any) -> Any:
        with keras.StatelessScope(state_mapping=[(layer.scale, scale)]):
            return {"output": layer([query, key])}

    return {"ours": ours, "keras.layers": theirs}
