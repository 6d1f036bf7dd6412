"""Memories: an `AssociativeMemory` of S patterns, and a DNC with M slots."""

from __future__ import annotations

from functools import partial

import numpy as np

from speed.harness import SEED
from speed.scale.curve import Call, Curve, Series, once

PATTERN, QUERIES = 32, 64  # the width of a pattern, the number of queries
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
