"""The networks: a DNC, a Neural Turing Machine, or an LSTM with as many weights."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention import layers
from keras_attention.benchmarks.dnc.problems import Problem
from keras_attention.models import DNCNetwork
from keras_attention.models.external_memory.asked_steps import AskedSteps

MODELS = ("dnc", "ntm", "lstm")


@keras.saving.register_keras_serializable(package="keras_attention.benchmarks")
class GlorotWithGain(keras.initializers.Initializer):
    """Glorot uniform initializer that multiplies the first rows by `gain`.

    Glorot initialization assumes inputs of variance 1. Sparse one-hot vectors have a
    much lower variance: at most ten of the 97 inputs of a block puzzle step are 1.

    Args:
        rows: the number of rows that are multiplied.
        gain: the factor.
        seed: the random seed.
    """

    def __init__(self, rows: int, gain: float, seed: int | None = None) -> None:
        self.rows, self.gain, self.seed = rows, gain, seed
        self._glorot = keras.initializers.GlorotUniform(seed)

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        numbers = self._glorot(shape, dtype)
        return ops.concatenate(
            [self.gain * numbers[: self.rows], numbers[self.rows :]], axis=0
        )

    def get_config(self) -> dict[str, Any]:
        return {"rows": self.rows, "gain": self.gain, "seed": self.seed}


def network(
    problem: Problem, model: str, arguments: dict[str, Any], seed: int
) -> keras.Model:
    """Creates a network with new weights.

    Args:
        problem: the problem. It defines the inputs and outputs.
        model: one of `MODELS`.
        arguments: `units` of the controller, `embedding_dim` for tokens,
            `kernel_gain`, the arguments of `GlorotWithGain` for the controller's
            kernel, and the memory arguments of `DNCCell` or `NTMCell`. If `model` is
            the LSTM, these arguments describe a DNC. The LSTM gets as many units as it
            needs to have at least as many weights as this DNC.
        seed: the seed of the weights.
    """
    keras.utils.set_random_seed(seed)
    rest = {**arguments}
    units, gain = rest.pop("units"), rest.pop("kernel_gain", None)
    reads: dict[str, Any] = {"input_dim": problem.width}
    if problem.vocabulary is not None:
        reads = {"vocabulary_size": problem.vocabulary}
        reads["embedding_dim"] = rest.pop("embedding_dim")
    if model == "lstm":
        units = lstm_units(network(problem, "dnc", arguments, seed), problem, reads)
    kernel: Any = GlorotWithGain(**gain) if gain else "glorot_uniform"
    if model == "lstm":
        return _lstm(problem, units, reads, kernel)
    cell = (layers.NTMCell if model == "ntm" else layers.DNCCell)(
        keras.layers.LSTMCell(units, kernel_initializer=kernel), **rest
    )
    return DNCNetwork(cell, problem.outputs, **reads)


def lstm_units(dnc: keras.Model, problem: Problem, reads: dict[str, Any]) -> int:
    """Returns the fewest units that give an LSTM at least as many weights as `dnc`."""
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
        # Padding comes after all answer steps, so it needs no mask.
        x = keras.layers.Embedding(
            problem.vocabulary,
            reads["embedding_dim"],
            embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0),
        )(inputs)
    x = keras.layers.LSTM(units, kernel_initializer=kernel, return_sequences=True)(x)
    x = AskedSteps()([keras.layers.Dense(problem.outputs)(x), asked])
    return keras.Model({"inputs": inputs, "answer_mask": asked}, x)
