"""The networks: a DNC, a Neural Turing Machine, or an LSTM with as many weights."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import layers
from keras_attention.kernels.memory_step.reference import interface_widths
from keras_attention.layers.external_memory.memory_cell import WithInputs
from keras_attention.models import DNCNetwork
from keras_attention.models.external_memory.dnc_network import AskedSteps
from studies.dnc.problems import Problem

MODELS = ("dnc", "ntm", "lstm")


@keras.saving.register_keras_serializable(package="studies")
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
            kernel, `with_inputs` for a controller of `WithInputs`, `initial_bias`, the
            arguments of `set_bias`, and the memory arguments of `DNCCell` or `NTMCell`.
            If `model` is the LSTM, these arguments describe a DNC. The LSTM gets as
            many units as it needs to have at least as many weights as this DNC.
        seed: the seed of the weights.
    """
    keras.utils.set_random_seed(seed)
    rest = {**arguments}
    units, gain = rest.pop("units"), rest.pop("kernel_gain", None)
    with_inputs, bias = rest.pop("with_inputs", False), rest.pop("initial_bias", {})
    reads: dict[str, Any] = {"input_dim": problem.width}
    if problem.vocabulary is not None:
        reads = {"vocabulary_size": problem.vocabulary}
        reads["embedding_dim"] = rest.pop("embedding_dim")
    if model == "lstm":
        units = lstm_units(network(problem, "dnc", arguments, seed), problem, reads)
    kernel: Any = GlorotWithGain(**gain) if gain else "glorot_uniform"
    if model == "lstm":
        return _lstm(problem, units, reads, kernel)
    controller: Any = keras.layers.LSTMCell(units, kernel_initializer=kernel)
    if with_inputs:
        width = reads.get("embedding_dim", problem.width)
        read = rest.get("read_heads", 1) * rest["word_width"]
        controller = WithInputs(controller, width + read)
    cell = (layers.NTMCell if model == "ntm" else layers.DNCCell)(controller, **rest)
    made = DNCNetwork(cell, problem.outputs, **reads)
    if bias:
        set_bias(cell, bias)
    return made


def set_bias(cell: layers.DNCCell, bias: dict[str, Any]) -> None:
    """Sets the initial bias of parts of the interface, before their activation.

    Args:
        cell: a built cell.
        bias: numbers, or arrays of the part's size, by the names of `Interface`.
    """
    sizes = cell.word_width, cell.read_heads, cell.write_heads
    widths = interface_widths(*sizes, cell.options)._asdict()
    unknown = [name for name in bias if not widths.get(name)]
    if unknown:
        raise ValueError(
            f"`bias` must name parts of the interface. Received: {unknown}"
        )
    normalization = cell.normalization
    variable = cell.interface.bias if normalization is None else normalization.beta
    parts = np.split(np.array(variable), np.cumsum([*widths.values()])[:-1])
    for name, part in zip(widths, parts):
        if name in bias:
            part[:] = np.broadcast_to(np.ravel(bias[name]), part.shape)
    variable.assign(np.concatenate(parts))


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
