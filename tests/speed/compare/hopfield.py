"""Hopfield layers, compared with one attention step and a plain torch form.

- `of=heads`: only the projected heads, (B·H, T, E), one or three steps.
- `of=layer`: with projections to and from the heads, D = H · E.
- `of=lookup`: B lookups among S trainable patterns, with projections.

One peer is a single step of our attention ("attention"). In a lookup, it attends to
patterns that are expanded to the batch. On torch, another peer is the plain update rule
of the authors' layer. This peer stores the weights of each step and expands constants
to the batch before the projection. Between steps, it tests whether a head has converged
("torch"), or it omits the test ("torch, no test"). With three steps, the result of the
attention peer differs from ours and is not compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from speed.compare import attention, backends
from speed.harness import SEED, Case, Contestants, Step, largest_difference

HEADS = {"of": "heads", "B": 2, "T": 512, "H": 8, "E": 64}
LAYER = {**HEADS, "of": "layer"}
LOOKUP = {"of": "lookup", "B": 256, "T": 1, "S": 1000, "H": 8, "E": 8}
FEW = {**LOOKUP, "B": 32}  # the case of a quick run
STEPS = (1, 3)
TOLERANCE = 1e-4


class Contestant(NamedTuple):
    """A timed function of the inputs, and the weights of the function."""

    call: Callable[[Any], Any]
    weights: list[Any]  # Keras variables or torch tensors


def cases() -> tuple[Case, ...]:
    """Returns cases for each kind, number of steps (one or three) and mode."""
    return tuple(
        _case({**sizes, "steps": steps, "mode": mode})
        for mode in attention.MODES
        for sizes in (HEADS, LAYER, LOOKUP, FEW)
        for steps in STEPS
    )


def _case(sizes: dict[str, Any]) -> Case:
    return Case(
        name="hopfield",
        sizes=sizes,
        make=lambda backend: _make(sizes, backend),
        steps=_work(sizes),
        tolerance=TOLERANCE,
        quick=sizes["B"] == FEW["B"],
    )


def _work(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """Counts two products per step, sample and head, and four projections."""
    patterns = sizes.get("S", sizes["T"])
    heads, width = sizes["B"] * sizes["H"], sizes["E"]
    queries = sizes["T"]
    if sizes["of"] == "lookup":  # all queries share the patterns
        heads, queries = sizes["H"], sizes["B"] * sizes["T"]
    flops = 2 * heads * queries * patterns * width
    moved = attention.FLOAT * heads * (queries + patterns) * width
    scores = (heads, queries, width, patterns)
    sums = (heads, queries, patterns, width)
    found = [Step(flops, moved, scores), Step(flops, moved, sums)] * sizes["steps"]
    both = sizes["mode"] == "fwd+bwd"
    found = found * 3 if both else found
    if sizes["of"] == "heads":
        return tuple(found)
    model = sizes["H"] * width
    stored = patterns if sizes["of"] == "lookup" else sizes["B"] * patterns
    for rows, count in ((sizes["B"] * sizes["T"], 2), (stored, 2)):
        moved = attention.FLOAT * (2 * rows * model + model * model)
        dense = Step(2 * rows * model**2, moved, (1, rows, model, model))
        found += [dense] * (3 * count if both else count)
    return tuple(found)


def _make(sizes: dict[str, Any], backend: str) -> Contestants:
    from keras import ops

    generator = np.random.default_rng(SEED)
    shape = (sizes["B"] * sizes["H"], sizes["T"], sizes["E"])
    if sizes["of"] != "heads":
        shape = (sizes["B"], sizes["T"], sizes["H"] * sizes["E"])
    inputs, cotangent = (
        ops.convert_to_tensor(generator.standard_normal(shape, dtype="float32"))
        for _ in range(2)
    )
    contestants = {"heads": _heads, "layer": _layer, "lookup": _lookup}[sizes["of"]]
    run = {"jax": _of_jax, "tensorflow": _of_tensorflow, "torch": _of_torch}[backend]
    calls = {
        name: run(contestant, sizes["mode"], inputs, cotangent)
        for name, contestant in contestants(sizes, backend).items()
    }
    return Contestants(calls=calls, check=lambda: _check(calls, sizes["steps"]))


def _check(calls: dict[str, Callable[[], Any]], steps: int) -> dict[str, float]:
    """Returns the difference from each peer, and 0 for a peer that is not compared."""
    arrays = {name: backends.to_numpy(call()) for name, call in calls.items()}
    ours = arrays.pop("ours")
    return {
        name: 0.0
        if name == "attention" and steps > 1
        else largest_difference(ours, theirs, TOLERANCE)
        for name, theirs in arrays.items()
    }


def _plain(sizes: dict[str, Any]) -> dict[str, bool]:
    """Returns the names of the plain torch forms, and whether they test convergence."""
    if sizes["steps"] == 1:
        return {"torch": False}  # a single step needs no test
    return {"torch": True, "torch, no test": False}


def _heads(sizes: dict[str, Any], backend: str) -> dict[str, Contestant]:
    from keras import ops as keras_ops

    from keras_attention import layers, ops

    beta = sizes["E"] ** -0.5
    layer = layers.Hopfield(update_steps=sizes["steps"], beta=beta, projections=False)

    def one(x: Any) -> Any:
        head = keras_ops.expand_dims(x, 2)  # (B·H, T, 1, E)
        return keras_ops.squeeze(ops.dot_product_attention(head, head, head), 2)

    found = {
        "ours": Contestant(lambda x: layer(x, x), []),
        "attention": Contestant(one, []),
    }
    if backend == "torch":
        from speed.compare import hopfield_torch as plain

        def run(x: Any, stops: bool) -> Any:
            head = x.unflatten(0, (sizes["B"], sizes["H"]))
            rule = (beta, sizes["steps"], stops)
            found: Any = plain.associate(head, head, head, *rule)
            return found.flatten(0, 1)

        for name, stops in _plain(sizes).items():
            found[name] = Contestant(partial(run, stops=stops), [])
    return found


def _layer(sizes: dict[str, Any], backend: str) -> dict[str, Contestant]:
    import keras

    from keras_attention.layers import Hopfield, MultiHeadAttention

    keras.utils.set_random_seed(SEED)
    shape = (sizes["B"], sizes["T"], sizes["H"] * sizes["E"])
    other = MultiHeadAttention(sizes["H"], sizes["E"])
    other.build(shape, shape)
    layer = Hopfield.from_multi_head(other, update_steps=sizes["steps"])
    found = {
        "ours": Contestant(lambda x: layer(x, x), layer.trainable_variables),
        "attention": Contestant(lambda x: other(x, x), other.trainable_variables),
    }
    if backend == "torch":
        from speed.compare import hopfield_torch as plain

        for name, stops in _plain(sizes).items():
            form = plain.Form(layer, sizes["E"] ** -0.5, sizes["steps"], stops)
            call = partial(lambda x, form: form(x, x), form=form)
            found[name] = Contestant(call, form.weights)
    return found


def _lookup(sizes: dict[str, Any], backend: str) -> dict[str, Contestant]:
    import keras
    from keras import ops

    from keras_attention.layers import HopfieldLayer

    keras.utils.set_random_seed(SEED)
    model = sizes["H"] * sizes["E"]
    layer = HopfieldLayer(sizes["S"], sizes["H"], update_steps=sizes["steps"])
    layer.build((sizes["B"], sizes["T"], model))
    one = HopfieldLayer(sizes["S"], sizes["H"])
    one.build((sizes["B"], sizes["T"], model))
    one.set_weights([ops.convert_to_numpy(w.value) for w in layer.weights])
    other = one.hopfield.to_multi_head()
    size = (sizes["B"], sizes["S"], model)

    def expanded(x: Any) -> Any:
        stored = ops.broadcast_to(ops.convert_to_tensor(one.patterns), size)
        return other(x, stored)

    weights = [one.patterns, *other.trainable_variables]
    found = {
        "ours": Contestant(layer, layer.trainable_variables),
        "attention": Contestant(expanded, weights),
    }
    if backend == "torch":
        from speed.compare import hopfield_torch as plain

        form = plain.Form(layer.hopfield, sizes["E"] ** -0.5, sizes["steps"], False)
        patterns: Any = plain.leaf(layer.patterns)
        found["torch"] = Contestant(
            lambda x: form(x, patterns.expand(size)), [patterns, *form.weights]
        )
    return found


def _of_jax(contestant: Contestant, mode: str, inputs: Any, cotangent: Any) -> Any:
    import jax
    import keras

    variables = contestant.weights
    values = [variable.value for variable in variables]

    def output(x: Any, values: Any) -> Any:
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return contestant.call(x)

    def loss(x: Any, values: Any) -> Any:
        out = output(x, values)
        return (out * cotangent).sum(), out

    def both(x: Any, values: Any) -> dict[str, Any]:
        run = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
        (_, out), (slope, slopes) = run(x, values)
        return _named(out, slope, slopes)

    def forward(x: Any, values: Any) -> dict[str, Any]:
        return {"output": output(x, values)}

    function = forward if mode == "fwd" else both
    return backends.compiled(function, (inputs, values), "jax")[0]


def _of_tensorflow(
    contestant: Contestant, mode: str, inputs: Any, cotangent: Any
) -> Any:
    import tensorflow as tf

    values = [variable.value for variable in contestant.weights]

    def run(x: Any) -> dict[str, Any]:
        if mode == "fwd":
            return {"output": contestant.call(x)}
        with tf.GradientTape() as tape:
            tape.watch(x)
            out = contestant.call(x)
            loss = tf.reduce_sum(out * cotangent)
        slope, *slopes = tape.gradient(loss, [x, *values])
        return _named(out, slope, slopes)

    return backends.compiled(run, (inputs,), "tensorflow")[0]


def _of_torch(contestant: Contestant, mode: str, inputs: Any, cotangent: Any) -> Any:
    import torch

    weights = [getattr(weight, "value", weight) for weight in contestant.weights]
    inputs = inputs.detach().clone()

    def predict() -> dict[str, Any]:
        with torch.no_grad():
            return {"output": contestant.call(inputs)}

    if mode == "fwd":
        return predict
    inputs.requires_grad_()

    def run() -> dict[str, Any]:
        out = contestant.call(inputs)
        found = torch.autograd.grad((out * cotangent).sum(), [inputs, *weights])
        return _named(out.detach(), found[0], found[1:])

    return run


def _named(output: Any, slope: Any, slopes: Any) -> dict[str, Any]:
    """Returns the output and all gradients by name.

    The timing waits for everything that is returned.
    """
    named = {f"dweight{i}": found for i, found in enumerate(slopes)}
    return {"output": output, "dinput": slope, **named}
