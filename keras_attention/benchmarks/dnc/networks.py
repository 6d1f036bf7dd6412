"""The networks: a DNC, a Neural Turing Machine, or an LSTM with as many weights."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import layers
from keras_attention.benchmarks.dnc.problems import Problem
from keras_attention.models import DNCNetwork
from keras_attention.models.dnc_network import AskedSteps

MODELS = ("dnc", "ntm", "lstm")


@keras.saving.register_keras_serializable(package="keras_attention.benchmarks")
class Louder(keras.initializers.Initializer):
    """Glorot's numbers, those of the first `inputs` rows `gain` times as large.

    Glorot counts on inputs of variance 1. Of the 97 numbers that tell a constraint of a
    puzzle at most ten are 1 and the others 0, and one of the ten is the goal's letter,
    on which it hangs which move is right: it begins faint.
    """

    def __init__(self, inputs: int, gain: float, seed: int | None = None) -> None:
        self.inputs, self.gain, self.seed = inputs, gain, seed
        self._glorot = keras.initializers.GlorotUniform(seed)

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        numbers = self._glorot(shape, dtype)
        return ops.concatenate(
            [self.gain * numbers[: self.inputs], numbers[self.inputs :]], axis=0
        )

    def get_config(self) -> dict[str, Any]:
        return {"inputs": self.inputs, "gain": self.gain, "seed": self.seed}


def network(
    problem: Problem, model: str, arguments: dict[str, Any], seed: int
) -> keras.Model:
    """A network with fresh weights.

    Args:
        problem: what it reads and writes.
        model: one of `MODELS`.
        arguments: `units` of the controller, `embedding_dim` for tokens, `louder`, the
            arguments of `Louder`, for the kernel of the controller, and the memory's
            arguments, which are those of `DNCCell` or `NTMCell`; an LSTM gets as many
            units as give it the weights of that DNC.
        seed: of the weights.
    """
    keras.utils.set_random_seed(seed)
    rest = {**arguments}
    units, louder = rest.pop("units"), rest.pop("louder", None)
    reads: dict[str, Any] = {"input_dim": problem.width}
    if problem.vocabulary is not None:
        reads = {"vocabulary_size": problem.vocabulary}
        reads["embedding_dim"] = rest.pop("embedding_dim")
    if model == "lstm":
        units = lstm_units(network(problem, "dnc", arguments, seed), problem, reads)
    kernel: Any = Louder(**louder) if louder else "glorot_uniform"
    if model == "lstm":
        return _lstm(problem, units, reads, kernel)
    cell = (layers.NTMCell if model == "ntm" else layers.DNCCell)(
        keras.layers.LSTMCell(units, kernel_initializer=kernel), **rest
    )
    return DNCNetwork(cell, problem.outputs, **reads)


def lstm_units(dnc: keras.Model, problem: Problem, reads: dict[str, Any]) -> int:
    """The fewest units with which an LSTM has at least the weights of a DNC."""
    width, embedding = problem.width, 0
    if width is None:
        width = reads["embedding_dim"]
        embedding = width * problem.vocabulary
    units = 1
    while (
        4 * units * (width + units + 1) + (units + 1) * problem.outputs + embedding
        < dnc.count_params()
    ):
        units += 1
    return units


def _lstm(
    problem: Problem, units: int, reads: dict[str, Any], kernel: Any
) -> keras.Model:
    asked = keras.Input((None,), dtype="bool", name="answer_mask")
    if problem.vocabulary is None:
        inputs = x = keras.Input((None, problem.width), name="inputs")
    else:
        inputs = keras.Input((None,), dtype="int32", name="inputs")
        # Padding is behind every step to answer at, and needs no mask.
        x = keras.layers.Embedding(
            problem.vocabulary,
            reads["embedding_dim"],
            embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0),
        )(inputs)
    x = keras.layers.LSTM(units, kernel_initializer=kernel, return_sequences=True)(x)
    x = AskedSteps()([keras.layers.Dense(problem.outputs)(x), asked])
    return keras.Model({"inputs": inputs, "answer_mask": asked}, x)
