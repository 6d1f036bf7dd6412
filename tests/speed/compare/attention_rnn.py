"""One training step of AttentionRNN, compared with keras.layers.RNN of a custom cell.

Both compute attention with Bahdanau's score and then call Keras' LSTMCell. They have
the same weights. The peer "cell alone" runs the LSTMCell in the loop of AttentionRNN
without attention. Its ratio is the LSTMCell's share of the step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from speed.compare.training import TrainingStep, array_of
from speed.harness import (
    SEED,
    Case,
    Contestants,
    NumericsError,
    Step,
    largest_difference,
)

RATE, FLOAT, GATES = 0.01, 4, 4
TOLERANCE = 1e-4
SIZES = {"B": 32, "T": 30, "S": 30, "U": 128}
PEER, CELL = "keras.layers.RNN", "cell alone"
NOT_REPLAYED = "ours, not replayed"  # on torch, ours is `keras_attention.recorded`
COMPILERS = {
    "graph": ("tensorflow",),
    "xla": ("tensorflow",),
    "default": ("jax", "torch"),
}


def cases() -> tuple[Case, ...]:
    """Returns the cases. TensorFlow has one case without XLA and one with XLA."""
    return tuple(
        _case({**SIZES, "compiler": compiler}, backends)
        for compiler, backends in COMPILERS.items()
    )


def _case(sizes: dict[str, Any], backends: tuple[str, ...]) -> Case:
    return Case(
        name="attention_rnn",
        sizes=sizes,
        make=lambda backend: _make(sizes, backend),
        steps=_steps(sizes),
        tolerance=TOLERANCE,
        quick=sizes["compiler"] != "xla",
        amount=(sizes["B"] * sizes["T"], "tokens"),
        backends=backends,
    )


def _steps(sizes: dict[str, Any]) -> tuple[Step, ...]:
    """Counts the products of each step three times: forward, and for two gradients."""
    batch, steps, keys, units = (sizes[name] for name in "BTSU")
    cell = (1, batch, 3 * units, GATES * units)  # [x; c; h] and a kernel
    asked = (1, batch, units, units)
    found = (batch, 1, keys, units)
    weights = FLOAT * units * units
    one = (
        Step(
            2 * math.prod(cell),
            FLOAT * (math.prod(cell[1:3]) + 12 * units * units),
            cell,
        ),
        Step(2 * math.prod(asked), weights, asked),
        Step(5 * batch * keys * units, FLOAT * batch * keys * units),  # tanh, and v
        Step(2 * math.prod(found), FLOAT * batch * keys * units, found),
    )
    projected = (1, batch * keys, units, units)
    rest = Step(2 * math.prod(projected), 2 * FLOAT * batch * keys * units, projected)
    return (*(3 * steps * one), *(3 * (rest,)))


def arrays_of(sizes: dict[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Samples the inputs by name, and the targets."""
    generator = np.random.default_rng(SEED)
    batch, steps, keys, units = (sizes[name] for name in "BTSU")
    shapes = (batch, steps, units), (batch, keys, units), (batch, steps, 1)
    *inputs, targets = (generator.standard_normal(shape, "float32") for shape in shapes)
    return dict(zip(("inputs", "memory"), inputs)), targets


def _make(sizes: dict[str, Any], backend: str) -> Contestants:
    (inputs, targets), units = arrays_of(sizes), sizes["U"]
    layers = _layers(units)
    if backend == "torch":
        layers[NOT_REPLAYED] = _layers(units)["ours"]
    found = {
        name: TrainingStep(
            _model(layer, inputs, sizes["compiler"]),
            inputs,
            targets,
            backend,
            replayed=backend == "torch" and name == "ours",
        )
        for name, layer in layers.items()
    }
    _share_weights(found["ours"].model, found[PEER].model)

    def check() -> dict[str, float]:
        """Compares the outputs of ours and theirs, before and after a step."""
        worst = 0.0
        try:
            for stepped in (False, True):
                if stepped:
                    for name in ("ours", PEER):
                        found[name]()
                ours, theirs = ({"out": found[n].predict()} for n in ("ours", PEER))
                worst = max(worst, largest_difference(ours, theirs, TOLERANCE))
        except NumericsError as error:
            raise NumericsError(f"ours against {PEER}: {error}") from error
        others = [name for name in found if name not in ("ours", PEER)]
        return {PEER: worst, **dict.fromkeys(others, float("nan"))}

    return Contestants(calls=found, check=check)


def _layers(units: int) -> dict[str, Any]:
    import keras

    from keras_attention.layers import AttentionRNN, BahdanauAttention
    from speed.compare import attention_rnn_keras as peers

    cell = keras.layers.LSTMCell(units)
    attention = BahdanauAttention(units, name="attention")
    return {
        "ours": AttentionRNN(cell, attention, return_sequences=True),
        PEER: peers.MemoryRNN(units),
        CELL: peers.CellAlone(units),
    }


def _model(layer: Any, inputs: dict[str, np.ndarray], compiler: str) -> Any:
    import keras

    given = {
        name: keras.Input(array.shape[1:], name=name) for name, array in inputs.items()
    }
    output = keras.layers.Dense(1)(layer(given["inputs"], given["memory"]))
    model = keras.Model(given, output)
    known = {"graph": False, "xla": True}
    jit = known.get(compiler, "auto")
    model.compile(keras.optimizers.SGD(RATE), "mse", jit_compile=jit)
    return model


def _share_weights(ours: Any, theirs: Any) -> None:
    """Copies our weights to the peer."""
    from keras_attention.layers import AttentionRNN

    (rnn,) = [layer for layer in ours.layers if isinstance(layer, AttentionRNN)]
    (peer,) = [layer for layer in theirs.layers if hasattr(layer, "project_key")]
    (attention,) = rnn.attentions
    score = {
        weight.path.rsplit("score/", 1)[-1]: weight for weight in attention.weights
    }
    pairs = {
        "query/kernel": peer.cell.project_query.kernel,
        "key/kernel": peer.project_key.kernel,
        "key/bias": peer.project_key.bias,
        "scale": peer.cell.scale,
    }
    for name, weight in pairs.items():
        weight.assign(array_of(score[name]).reshape(weight.shape))
    peer.cell.lstm.set_weights([array_of(weight) for weight in rnn.cell.weights])
    theirs.layers[-1].set_weights([array_of(w) for w in ours.layers[-1].weights])
