"""The actor and the critic: one trunk with a memory, and a head for both.

Shapes: B puzzles, K episodes per puzzle, N episodes, T steps, D = 97 inputs, L letter
width, F features, U hidden units, R read heads, W word width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention import layers
from keras_attention.datasets.blocks.boards import MOVES
from keras_attention.datasets.blocks.puzzles import LETTERS
from keras_attention.datasets.blocks.vectors import GO, INPUTS, SQUARES
from studies.blocks.cells import FeedforwardCell, start_as_lookup

OUTPUTS = len(MOVES) + 2  # the logits of seven actions, and the value
MODELS = ("dnc", "lstm")


class Agent(NamedTuple):
    """Three models that share all weights.

    Attributes:
        learner: maps `"told"` (B, T', D), `"told_mask"` (B, T') and `"played"`
            (B, K, T, D) to logits and values (B, K, T, 8). It is trained.
        reader: maps `"told"` and `"told_mask"` to the state after the constraints, a
            list of tensors.
        player: maps `"inputs"` (N, 1, D) and the state to logits and values (N, 8) and
            the next state, a list of tensors.
        trunk: the recurrent layer, a `DNC` or an LSTM.
        encoder: the layers before it.
        head: the layers after it.
    """

    learner: keras.Model
    reader: keras.Model
    player: keras.Model
    trunk: Any
    encoder: keras.Model
    head: keras.Model


class Merged(keras.layers.Layer):
    """Merges the axes of puzzles and episodes: (B, K, T, ·) to (B K, T, ·)."""

    def call(self, inputs: Any) -> Any:
        return ops.reshape(inputs, (-1, *ops.shape(inputs)[2:]))

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (None, *input_shape[2:])


class Split(keras.layers.Layer):
    """Splits the axis of episodes: (B K, T, ·) to (B, K, T, ·)."""

    def __init__(self, episodes: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.episodes = episodes

    def call(self, inputs: Any) -> Any:
        return ops.reshape(inputs, (-1, self.episodes, *ops.shape(inputs)[1:]))

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (None, self.episodes, *input_shape[1:])


def agent(model: str, arguments: dict[str, Any], seed: int, episodes: int = 8) -> Agent:
    """Creates an agent with new weights.

    Letters and constraints are embedded separately. The trunk is a `DNC` with a
    feedforward controller, so all it remembers is in its memory, or an LSTM. The head
    is a perceptron that reads the trunk's output and the board.

    Args:
        model: one of `MODELS`.
        arguments: `letter_width` and `features` of the embeddings; `hidden` units of
            the controller; `head`, the widths of the head's hidden layers; `lookup`,
            whether reads start as a lookup by letter, see `start_as_lookup`; and the
            memory arguments of `DNCCell`. The LSTM gets as many units as it needs to
            have at least as many weights.
        seed: the seed of the weights.
        episodes: K, the number of episodes per puzzle that `learner` expects.
    """
    keras.utils.set_random_seed(seed)
    encoder = _encoder(arguments["letter_width"], arguments["features"])
    bypass = encoder.output_shape[-1] - (INPUTS - SQUARES)  # all but the squares
    if model == "dnc":
        rest = {
            name: value
            for name, value in arguments.items()
            if name not in ("letter_width", "features", "hidden", "head", "lookup")
        }
        cell = layers.DNCCell(FeedforwardCell(arguments["hidden"], bypass), **rest)
        trunk = layers.DNC(cell, return_sequences=True, return_state=True, name="dnc")
    else:
        dnc = agent("dnc", arguments, seed).learner.count_params()
        keras.utils.set_random_seed(seed)
        encoder = _encoder(arguments["letter_width"], arguments["features"])
        trunk = _lstm(dnc, encoder, arguments["head"])
    made = _models(encoder, trunk, arguments["head"], episodes)
    if model == "dnc" and arguments["lookup"]:
        first = made.head.get_layer("head_0")
        start_as_lookup(cell, first, arguments["letter_width"])
    return made


def _encoder(letter_width: int, features: int) -> keras.Model:
    """Returns [stated letter; asked letter; features; go cue; squares].

    The embedding of a letter is the same before and after the go cue, but it is in
    different elements, and the others are 0.
    """
    inputs = keras.Input((None, INPUTS))
    letters = keras.layers.Dense(
        letter_width, use_bias=False, kernel_initializer=_normal(1.0), name="letters"
    )(inputs[..., : len(LETTERS)])
    go = inputs[..., GO:SQUARES]
    # Three of the inputs are 1: two blocks and the relation between them.
    constraints = keras.layers.Dense(
        features,
        activation="relu",
        kernel_initializer=_normal(1.0),
        bias_initializer=_normal(0.5),
        name="constraints",
    )(inputs[..., len(LETTERS) : GO])
    # Without a constraint, there are no features.
    constraints *= ops.sum(inputs[..., len(LETTERS) : GO], -1, keepdims=True) / 3
    seen = [letters * (1 - go), letters * go, constraints, inputs[..., GO:]]
    return keras.Model(inputs, ops.concatenate(seen, -1), name="encoder")


def _normal(scale: float) -> keras.initializers.Initializer:
    return keras.initializers.RandomNormal(stddev=scale)


def _lstm(weights: int, encoder: keras.Model, head: list[int]) -> Any:
    """Returns an LSTM with which an agent has at least so many weights."""
    width, units = encoder.output_shape[-1], 1
    while (
        encoder.count_params()
        + 4 * units * (width + units + 1)
        + _head(head, units + INPUTS - SQUARES).count_params()
        < weights
    ):
        units += 1
    return keras.layers.LSTM(
        units, return_sequences=True, return_state=True, name="lstm"
    )


def _head(widths: list[int], inputs: int) -> keras.Model:
    x = seen = keras.Input((None, inputs))
    for number, width in enumerate(widths):
        # At most six of the inputs of the board are 1.
        kernel: Any = "he_normal" if number else _normal(0.2)
        x = keras.layers.Dense(
            width, activation="relu", kernel_initializer=kernel, name=f"head_{number}"
        )(x)
    # Small initial logits: all actions are about equally probable.
    x = keras.layers.Dense(OUTPUTS, kernel_initializer=_normal(0.01), name="output")(x)
    return keras.Model(seen, x, name="head")


def _skipped(trunk: Any) -> slice:
    """Returns the part of the trunk's output that is only a copy of its input."""
    if isinstance(trunk, layers.DNC):
        cell = trunk.cell.cell
        return slice(cell.units, cell.units + cell.bypass)
    return slice(0, 0)


def _models(
    encoder: keras.Model, trunk: Any, widths: list[int], episodes: int
) -> Agent:
    told = keras.Input((None, INPUTS), name="told")
    told_mask = keras.Input((None,), dtype="bool", name="told_mask")
    _, *state = trunk(encoder(told), mask=told_mask)

    played = keras.Input((episodes, None, INPUTS), name="played")
    rows = Merged(name="merged")(played)  # (B K, T, D)
    copies = [ops.repeat(x, episodes, axis=0) for x in state]
    output, *_ = trunk(encoder(rows), initial_state=copies)
    skipped = _skipped(trunk)
    width = output.shape[-1] - (skipped.stop - skipped.start)
    head = _head(widths, width + INPUTS - SQUARES)

    def scored(output: Any, rows: Any) -> Any:
        parts = [output[..., : skipped.start], output[..., skipped.stop :]]
        return head(ops.concatenate([*parts, rows[..., SQUARES:]], -1))

    learned = Split(episodes, name="split")(scored(output, rows))  # (B, K, T, 8)
    inputs = keras.Input((1, INPUTS), name="inputs")
    before = [
        keras.Input(x.shape[1:], dtype=x.dtype, name=f"state_{n}")
        for n, x in enumerate(state)
    ]
    output, *after = trunk(encoder(inputs), initial_state=before)
    given = {"told": told, "told_mask": told_mask}
    return Agent(
        keras.Model({**given, "played": played}, learned),
        keras.Model(given, state),
        keras.Model([inputs, *before], [scored(output, inputs)[:, 0], *after]),
        trunk,
        encoder,
        head,
    )
