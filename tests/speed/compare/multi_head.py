"""Multi-head self-attention, including its projections.

The peers are `keras.layers.MultiHeadAttention` ("keras.layers") and, on torch,
`torch.nn.MultiheadAttention` ("torch"). They have the same weights as our layer. The
gradients are with respect to the input and the weights. With `extra=dropout`, a dropout
rate is set, but dropout is not applied, as in inference. With `extra=training`, dropout
is applied, and each side draws its own random numbers. The benchmark then compares the
results without dropout, and the standard deviation of the noise that dropout adds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from speed.compare import attention, backends
from speed.compare.attention_core import EVERY, padding
from speed.harness import (
    SEED,
    Case,
    Contestants,
    NumericsError,
    Step,
    largest_difference,
)

SIZES = {"B": 2, "H": 8, "D": 512}
TINY = {"B": 1, "H": 8, "D": 64, "T": 16}
NOT_REPLAYED = (
    "ours, not replayed"  # tiny, on torch: ours is `keras_attention.recorded`
)
EXTRAS = ("none", "padding", "causal", "dropout", "training")
RATE = 0.1  # of dropout
TOLERANCE = 1e-4
CLOSE = 0.05  # largest relative difference between the noises of dropout


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
        tolerance=TOLERANCE,
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
    calls = {
        name: contestant(layer, sizes, backend, inputs, cotangent, mask)
        for name, layer in layers.items()
    }
    if sizes["extra"] != "training":
        return Contestants(calls=calls)
    without = {
        name: contestant(
            layer, {**sizes, "extra": "dropout"}, backend, inputs, cotangent, mask
        )
        for name, layer in layers.items()
    }
    return Contestants(calls=calls, check=lambda: _compare_noise(calls, without))


def contestant(
    layer: Any, sizes: dict[str, Any], backend: str, *given: Any
) -> Callable[[], dict[str, Any]]:
    """Returns a function that calls a layer of self-attention, compiled as usual.

    Args:
        layer: A built layer.
        sizes: The sizes of a case.
        backend: "jax", "tensorflow" or "torch".
        *given: The inputs, the cotangent, and a mask of values or None.
    """
    made = {"jax": _of_jax, "tensorflow": _of_tensorflow, "torch": _of_torch}
    return made[backend](layer, sizes, *given)


def _compare_noise(calls: dict[str, Any], without: dict[str, Any]) -> dict[str, float]:
    """Compares the results without dropout, and the deviations of the noise.

    Returns:
        The relative difference between the deviations, for each peer.

    Raises:
        NumericsError: If the results or the deviations differ, or the noise has a mean.
    """
    plain = {name: backends.to_numpy(call()) for name, call in without.items()}
    deviations, differences = {}, {}
    for name, call in calls.items():
        noise = backends.to_numpy(call())["output"] - plain[name]["output"]
        deviations[name] = noise.std()
        if abs(noise.mean()) > CLOSE * noise.std():
            raise NumericsError(f"dropout of {name} has the mean {noise.mean()}")
    for name in set(calls) - {"ours"}:
        largest_difference(plain["ours"], plain[name], TOLERANCE)
        difference = abs(deviations["ours"] / deviations[name] - 1)
        if not difference < CLOSE:
            raise NumericsError(f"the noises of dropout differ: {deviations}")
        differences[name] = float(difference)
    return differences


def _layers(sizes: dict[str, Any], shape: tuple, backend: str) -> dict[str, Any]:
    import keras

    import keras_attention
    from keras_attention.layers import MultiHeadAttention

    keras.utils.set_random_seed(SEED)
    rate = RATE if sizes["extra"] in ("dropout", "training") else 0.0
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
        ).train(sizes["extra"] == "training")
        taken = MultiHeadAttention.from_torch(layers["torch"])
        ours.set_weights(taken.get_weights())
    theirs.set_weights(ours.get_weights())
    if backend == "torch" and width == TINY["D"]:
        layers[NOT_REPLAYED] = ours
        layers["ours"] = keras_attention.recorded(ours)
    return layers


def _options(sizes: dict[str, Any], mask: Any) -> dict[str, Any]:
    return {
        "value_mask": mask,
        "use_causal_mask": sizes["extra"] == "causal",
        "training": sizes["extra"] == "training",
    }


def _of_jax(layer: Any, sizes: Any, inputs: Any, cotangent: Any, mask: Any) -> Any:
    import jax

    weights = [variable.value for variable in layer.trainable_variables]
    others = [variable.value for variable in layer.non_trainable_variables]
    mask = None if mask is None else jax.numpy.asarray(mask)
    options = _options(sizes, mask)

    def output(x: Any, weights: Any, others: Any) -> Any:  # others: the state of seeds
        return layer.stateless_call(weights, others, x, x, **options)[0]

    # As an argument: JAX would copy a constant into the compiled function.
    def loss(x: Any, weights: Any, others: Any, cotangent: Any) -> Any:
        out = output(x, weights, others)
        return (out * cotangent).sum(), out

    function: Callable = output
    arguments: tuple = (inputs, weights, others)
    if sizes["mode"] != "fwd":
        arguments = (*arguments, cotangent)
        function = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
    call, _ = backends.compiled(function, arguments, "jax")
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
        _set_training(layer, sizes)
        with torch.no_grad():
            return {"output": forward(inputs)}

    if sizes["mode"] == "fwd":
        return predict
    inputs.requires_grad_()
    weights = [w for w in layer.parameters() if w.requires_grad]  # no seeds

    def run() -> dict[str, Any]:
        _set_training(layer, sizes)
        out = forward(inputs)
        found = torch.autograd.grad((out * cotangent).sum(), [inputs, *weights])
        return {"output": out.detach(), "dinput": found[0]}

    return run


def _set_training(layer: Any, sizes: dict[str, Any]) -> None:
    import torch

    if isinstance(layer, torch.nn.MultiheadAttention):  # ours gets it as an argument
        layer.train(sizes["extra"] == "training")


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
