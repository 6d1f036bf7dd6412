"""Multi-head self-attention, including its projections.

The peers are `keras.layers.MultiHeadAttention` ("keras.layers") and, on torch,
`torch.nn.MultiheadAttention` ("torch"). They have the same weights as our layer. The
gradients are with respect to the input and the weights. With `extra=dropout`, a dropout
rate is set, but dropout is not applied, as in inference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_attention.benchmarks.harness import SEED, Case, Contestants, Step
from keras_attention.benchmarks.speed import attention, backends
from keras_attention.benchmarks.speed.attention_core import EVERY, padding

SIZES = {"B": 2, "H": 8, "D": 512}
TINY = {"B": 1, "H": 8, "D": 64, "T": 16}
EXTRAS = ("none", "padding", "causal", "dropout")


def cases() -> tuple[Case, ...]:
    """Returns cases for each length and mask, and a tiny case with mostly overhead."""
    every = [
        {**SIZES, "T": length, "extra": extra, "mode": mode}
        for mode in attention.MODES
        for extra in EXTRAS
        for length in attention.LENGTHS
    ]
    tiny = [{**TINY, "extra": "none", "mode": mode} for mode in attention.MODES]
    compiled = [{**sizes, "compiler": "xla"} for sizes in every]
    return (
        *(_case(sizes) for sizes in [*tiny, *every]),
        *(_case(sizes, ("tensorflow",)) for sizes in compiled),
    )


def _case(sizes: dict[str, Any], only: tuple[str, ...] = EVERY) -> Case:
    return Case(
        name="multi_head",
        sizes=sizes,
        make=lambda backend: _make(sizes, backend),
        steps=_steps(sizes),
        tolerance=1e-4,
        quick=sizes["D"] == TINY["D"],
        amount=(sizes["B"] * sizes["T"], "tokens"),
        backends=only,
    )


def _steps(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """Counts four projections, each with two backward products, and the core."""
    width, rows = sizes["D"], sizes["B"] * sizes["T"]
    moved = attention.FLOAT * (2 * rows * width + width * width)
    forward = Step(2 * rows * width * width, moved, (1, rows, width, width))
    back = Step(2 * rows * width * width, moved, (1, width, rows, width))
    core = attention.steps({**sizes, "E": width // sizes["H"]})
    both = sizes["mode"] == "fwd+bwd"
    return (*[forward] * (8 if both else 4), *[back] * (4 if both else 0), *core)


def _make(sizes: dict[str, Any], backend: str) -> Contestants:
    from keras import ops

    generator = np.random.default_rng(SEED)
    shape = tuple(sizes[name] for name in "BTD")
    inputs, cotangent = (
        ops.convert_to_tensor(generator.standard_normal(shape, dtype="float32"))
        for _ in range(2)
    )
    mask = padding(sizes["B"], sizes["T"]) if sizes["extra"] == "padding" else None
    layers = _layers(sizes, shape, backend)
    contestant = {"jax": _of_jax, "tensorflow": _of_tensorflow, "torch": _of_torch}
    return Contestants(
        calls={
            name: contestant[backend](layer, sizes, inputs, cotangent, mask)
            for name, layer in layers.items()
        }
    )


def _layers(sizes: dict[str, Any], shape: tuple, backend: str) -> dict[str, Any]:
    import keras

    from keras_attention.layers import MultiHeadAttention

    keras.utils.set_random_seed(SEED)
    rate = 0.1 if sizes["extra"] == "dropout" else 0.0
    heads, width = sizes["H"], sizes["D"]
    ours = MultiHeadAttention(heads, width // heads, dropout=rate)
    theirs = keras.layers.MultiHeadAttention(heads, width // heads, dropout=rate)
    for layer in (ours, theirs):
        layer.build(shape, shape)
    layers = {"ours": ours, "keras.layers": theirs}
    if backend == "torch":
        import torch

        layers["torch"] = torch.nn.MultiheadAttention(
            width, heads, dropout=rate, batch_first=True
        ).eval()
        taken = MultiHeadAttention.from_torch(layers["torch"])
        ours.set_weights(taken.get_weights())
    theirs.set_weights(ours.get_weights())
    return layers


def _options(sizes: dict[str, Any], mask: Any) -> dict[str, Any]:
    return {
        "value_mask": mask,
        "use_causal_mask": sizes["extra"] == "causal",
        "training": False,
    }


def _of_jax(layer: Any, sizes: Any, inputs: Any, cotangent: Any, mask: Any) -> Any:
    import jax

    weights = [variable.value for variable in layer.trainable_variables]
    others = [variable.value for variable in layer.non_trainable_variables]
    mask = None if mask is None else jax.numpy.asarray(mask)
    options = _options(sizes, mask)

    def output(x: Any, weights: Any) -> Any:
        return layer.stateless_call(weights, others, x, x, **options)[0]

    def loss(x: Any, weights: Any) -> Any:
        out = output(x, weights)
        return (out * cotangent).sum(), out

    function: Callable = output
    if sizes["mode"] != "fwd":
        function = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
    call, _ = backends.compiled(function, (inputs, weights), "jax")
    return lambda: _named(call(), sizes)


def _of_tensorflow(
    layer: Any, sizes: Any, inputs: Any, cotangent: Any, mask: Any
) -> Any:
    import tensorflow as tf

    weights = [variable.value for variable in layer.trainable_variables]
    options = _options(sizes, None if mask is None else tf.constant(mask))

    def run(x: Any) -> Any:
        if sizes["mode"] == "fwd":
            return layer(x, x, **options)
        with tf.GradientTape() as tape:
            tape.watch(x)
            out = layer(x, x, **options)
            loss = tf.reduce_sum(out * cotangent)
        found = tape.gradient(loss, [x, *weights])
        return (loss, out), (found[0], found[1:])

    xla = sizes.get("compiler") == "xla"
    call, _ = backends.compiled(run, (inputs,), "tensorflow", xla)
    return lambda: _named(call(), sizes)


def _of_torch(layer: Any, sizes: Any, inputs: Any, cotangent: Any, mask: Any) -> Any:
    import torch

    forward = _torch_forward(layer, sizes, mask)
    inputs = inputs.detach().clone()

    def predict() -> dict[str, Any]:
        with torch.no_grad():
            return {"output": forward(inputs)}

    if sizes["mode"] == "fwd":
        return predict
    inputs.requires_grad_()
    weights = [w for w in layer.parameters() if w.requires_grad]  # no seeds

    def run() -> dict[str, Any]:
        out = forward(inputs)
        found = torch.autograd.grad((out * cotangent).sum(), [inputs, *weights])
        return {"output": out.detach(), "dinput": found[0]}

    return run


def _torch_forward(layer: Any, sizes: Any, mask: Any) -> Callable:
    import torch

    hidden = None if mask is None else torch.as_tensor(mask)
    if not isinstance(layer, torch.nn.MultiheadAttention):
        options = _options(sizes, hidden)
        return lambda x: layer(x, x, **options)
    more: dict[str, Any] = {"need_weights": False}
    if hidden is not None:
        more["key_padding_mask"] = ~hidden
    if sizes["extra"] == "causal":
        length = sizes["T"]
        ahead = torch.ones(length, length, dtype=torch.bool).triu(1)
        more |= {"attn_mask": ahead, "is_causal": True}
    return lambda x: layer(x, x, x, **more)[0]


def _named(result: Any, sizes: dict[str, Any]) -> dict[str, Any]:
    if sizes["mode"] == "fwd":
        return {"output": result}
    (_, output), (slope, weights) = result
    # The result includes the gradients of the weights, so that the timing waits for
    # them. Our layer and its peers have the same order of weights.
    named = {f"dweight{i}": g for i, g in enumerate(weights)}
    return {"output": output, "dinput": slope, **named}
