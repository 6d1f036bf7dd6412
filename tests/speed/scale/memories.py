"""Memories: patterns of an `AssociativeMemory`, learned patterns, slots of a DNC."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from speed.harness import SEED
from speed.scale.curve import Call, Curve, Series, once

PATTERN, QUERIES = 32, 64  # the width of a pattern, the number of queries
LOOKUPS, LOOKUP_WIDTH = 8192, 128
LOOKUP_MODES = (
    ("1 head", "forward"),
    ("1 head", "Adam"),
    ("1 head", "SGD"),
    ("4 heads", "forward"),
    ("4 heads", "Adam"),
)
DNC_SIZES = {"B": 1, "T": 4, "W": 32, "R": 4, "U": 128, "D": 16}
RATE = 0.01
LINKS: dict[str, bool | int] = {
    "all links": True,
    "8 links a slot": 8,
    "no links": False,
}


def patterns_curve() -> Curve:
    """Returns the curve of one step of retrieval."""
    return Curve(
        "patterns",
        "patterns stored",
        tuple(10**n for n in range(3, 8)),
        (1000, 10_000),
        f"AssociativeMemory.retrieve, one step of {QUERIES} queries of width {PATTERN}",
        (Series("one step", _retrieval),),
    )


def lookups_curve() -> Curve:
    """Returns the curve of a layer with learned patterns: all keys or product keys."""
    return Curve(
        "lookups",
        "learned patterns",
        tuple(n**2 for n in (32, 100, 316, 1000)),
        (1024, 10_000),
        f"HopfieldLayer, {LOOKUPS:,} inputs of width {LOOKUP_WIDTH}",
        tuple(
            Series(f"{keys}, {heads}, {mode}", partial(_lookup, keys, heads, mode))
            for keys in ("all keys", "product keys")
            for heads, mode in LOOKUP_MODES
        ),
    )


def slots_curve() -> Curve:
    """Returns the curve of a training step of the DNC."""
    sizes = " ".join(f"{name}{size}" for name, size in DNC_SIZES.items())
    return Curve(
        "slots",
        "memory slots M",
        (64, 256, 1024, 4096, 16_384),
        (64, 128),
        f"a training step of the DNC, {sizes}",
        tuple(Series(name, partial(_dnc, name)) for name in LINKS),
    )


def _retrieval(count: int, backend: str) -> Call:
    from keras import ops

    from keras_attention.models import AssociativeMemory

    generator = np.random.default_rng(SEED)
    memory = AssociativeMemory(beta=PATTERN**-0.5)
    memory.store(generator.standard_normal((count, PATTERN), dtype="float32"))
    states = generator.standard_normal((QUERIES, PATTERN), dtype="float32")
    queries = ops.convert_to_tensor(states)
    return lambda: memory.retrieve(queries, steps=1)


def _lookup(keys: str, heads: str, mode: str, count: int, backend: str) -> Call:
    """A forward pass, or a training step, of a layer with `count` learned patterns."""
    import keras

    from keras_attention.layers import HopfieldLayer
    from speed.compare.backends import compiled
    from speed.compare.training import TrainingStep

    keras.utils.set_random_seed(SEED)
    shape = (LOOKUPS, LOOKUP_WIDTH)
    generator = np.random.default_rng(SEED)
    inputs, targets = (generator.standard_normal(shape, "float32") for _ in range(2))
    kind = "product" if keys == "product keys" else None

    def build() -> Call:
        layer = HopfieldLayer(count, int(heads[0]), separate_values=True, keys=kind)
        model_input = keras.Input((LOOKUP_WIDTH,), name="inputs")
        model = keras.Model({"inputs": model_input}, layer(model_input))
        if mode == "forward":
            weights = [weight.value for weight in layer.trainable_variables]

            def read(x: Any, *weights: Any) -> Any:  # weights are no constants on JAX
                return layer.stateless_call(weights, states, x, training=False)[0]

            states = [variable.value for variable in layer.non_trainable_variables]
            arguments = (keras.ops.convert_to_tensor(inputs), *weights)
            return compiled(read, arguments, backend)[0]
        jit = False if backend == "tensorflow" else "auto"
        optimizers = {"Adam": keras.optimizers.Adam, "SGD": keras.optimizers.SGD}
        model.compile(optimizers[mode](RATE), "mse", jit_compile=jit)
        return TrainingStep(model, {"inputs": inputs}, targets, backend)

    return once(build)


def _dnc(links: str, slots: int, backend: str) -> Call:
    import keras

    from keras_attention.layers import DNC, DNCCell
    from speed.compare.training import TrainingStep

    keras.utils.set_random_seed(SEED)
    batch, steps, width, heads, units, dim = DNC_SIZES.values()
    generator = np.random.default_rng(SEED)
    inputs, targets = generator.standard_normal((2, batch, steps, dim), "float32")

    def build() -> TrainingStep:
        cell = DNCCell(
            keras.layers.LSTMCell(units),
            slots,
            width,
            heads,
            output_units=dim,
            links=LINKS[links],
        )
        given = keras.Input((steps, dim), name="inputs")
        model = keras.Model({"inputs": given}, DNC(cell, return_sequences=True)(given))
        jit = False if backend == "tensorflow" else "auto"
        model.compile(keras.optimizers.SGD(RATE), "mse", jit_compile=jit)
        return TrainingStep(model, {"inputs": inputs}, targets, backend)

    return once(build)
