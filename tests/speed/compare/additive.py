"""Attention with the additive score, compared with Keras' layer.

Both get projected queries and keys and the same score vector. The keys are also the
values. The peer is `keras.layers.AdditiveAttention` ("keras.layers"), whose variable is
replaced with the score vector. TensorFlow also runs with XLA, an option of Keras.

`additive_long` measures memory. Keras' layer would need 17 GB for all pairs and cannot
run. The peer is scaled dot-product attention that stores the scores ("dot product").
Its result is different.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from speed.compare import backends
from speed.harness import SEED, Case, Contestants, Step

MODES = ("fwd", "fwd+bwd")
SIZES = ({"B": 4, "T": 128, "U": 128}, {"B": 8, "T": 256, "U": 256})
LONG: dict[str, Any] = {"B": 1, "T": 4096, "U": 256, "mode": "fwd+bwd"}
FLOAT = 4  # bytes


def cases() -> tuple[Case, ...]:
    """Returns cases with T queries and T keys, with and without gradients.

    The gradients are with respect to the queries, the keys and the score vector.
    """
    every = [{**sizes, "mode": mode} for mode in MODES for sizes in SIZES]
    compiled = [{**sizes, "compiler": "xla"} for sizes in every]
    return (
        *(_case(sizes) for sizes in every),
        *(_case(sizes, ("tensorflow",)) for sizes in compiled),
    )


def long_cases() -> tuple[Case, ...]:
    """Returns the case with one long sequence."""
    return (
        Case(
            name="additive_long",
            sizes=LONG,
            make=lambda backend: _make(LONG, backend, _long_functions),
            steps=_steps(LONG),
            tolerance=1e-4,
        ),
    )


def _case(
    sizes: dict[str, Any], only: tuple[str, ...] = ("jax", "torch", "tensorflow")
) -> Case:
    return Case(
        name="additive",
        sizes=sizes,
        make=lambda backend: _make(sizes, backend, _functions),
        steps=_steps(sizes),
        tolerance=1e-4,
        quick=sizes["T"] == min(s["T"] for s in SIZES) and "compiler" not in sizes,
        amount=(sizes["B"] * sizes["T"], "tokens"),
        backends=only,
    )


def _steps(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """Counts the scores of all pairs and the products with the values.

    The floor uses operations only for matrix products. The tanh of each pair is no
    matrix product, so only the bytes of queries, keys and scores count for it. The
    floor is therefore far below any time that can be reached.
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


def _make(
    sizes: dict[str, Any],
    backend: str,
    functions: Callable[[Any], dict[str, Callable[..., Any]]],
) -> Contestants:
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
    xla = sizes.get("compiler") == "xla"
    for name, function in functions(arguments).items():
        if sizes["mode"] == "fwd":
            call, scratch = backends.compiled(function, arguments, backend, xla)
        else:
            call, scratch = backends.compiled_with_gradients(
                function, arguments, cotangent, backend, xla
            )
        calls[name] = call
        if scratch is not None:
            memory[name] = scratch

    def not_compared() -> dict[str, float]:
        return dict.fromkeys(set(calls) - {"ours"}, float("nan"))

    differ = functions is _long_functions
    return Contestants(
        calls=calls, memory=memory, check=not_compared if differ else None
    )


def _functions(arguments: Any) -> dict[str, Callable[..., Any]]:
    import keras

    layer = keras.layers.AdditiveAttention()
    layer.build([tuple(x.shape) for x in arguments[:2]])

    def theirs(query: Any, key: Any, scale: Any) -> Any:
        with keras.StatelessScope(state_mapping=[(layer.scale, scale)]):
            return {"output": layer([query, key])}

    return {"ours": _ours, "keras.layers": theirs}


def _long_functions(arguments: Any) -> dict[str, Callable[..., Any]]:
    from keras_attention import ops

    def dot_product(query: Any, key: Any, scale: Any) -> Any:
        return {"output": ops.attend(query * scale, key, key)[0]}

    return {"ours": _ours, "dot product": dot_product}


def _ours(query: Any, key: Any, scale: Any) -> Any:
    from keras_attention import ops

    def score(q: Any, k: Any) -> Any:
        return ops.scores.additive(q, k, scale)

    return {"output": ops.attend(query, key, key, score)[0]}
