"""One network per model family, with a given number of weights.

Networks for sequences map "story" (B, L) and "places" (B, K) to logits (B, K, V).
Memory networks map one question per answer to logits (B, V); see `tasks.py`.

Shapes: B batch, L words of a story with its question, K answers, V vocabulary, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention import layers, models
from studies.five_tasks.tasks import Task

Tensor = Any

WEIGHTS = 50_000  # of each network
TOLERANCE = 0.05
EMBEDDING = 32  # the width of the words of the recurrent networks
WIDTH, HEADS = 48, 4  # of the two blocks of the Transformers
UNIVERSAL = 64  # the width of the only block of the Universal Transformer
STEPS = 4  # how often this block is applied
SLOTS, WORD = 32, 16  # of the external memories
HOPS = 3


class DoesNotFitError(ValueError):
    """A model cannot answer a task, or not with this number of weights."""


class Family(NamedTuple):
    """A model family.

    Attributes:
        name: the name in tables.
        description: one sentence for the results page.
        build: a function of a task and a size that returns a network. The number of
            weights increases with the size.
        sizes: the smallest and the largest size.
        reads: "sequences", "questions" or "supports": how it reads a story.
    """

    name: str
    description: str
    build: Callable[[Task, int], keras.Model]
    sizes: tuple[int, int] = (4, 512)
    reads: str = "sequences"


def sized(family: Family, task: Task, weights: int = WEIGHTS) -> tuple[int, int]:
    """Finds the size with the number of weights closest to `weights`.

    Returns:
        The size and the number of weights.

    Raises:
        DoesNotFitError: the closest number differs by more than `TOLERANCE`.
    """
    low, high = family.sizes
    counts: dict[int, int] = {}

    def count(size: int) -> int:
        if size not in counts:
            counts[size] = family.build(task, size).count_params()
        return counts[size]

    while high - low > 1:
        middle = (low + high) // 2
        if count(middle) < weights:
            low = middle
        else:
            high = middle
    size = min((low, high), key=lambda size: abs(count(size) - weights))
    if abs(counts[size] - weights) > TOLERANCE * weights:
        raise DoesNotFitError(
            f"{family.name} has {counts[size]:,} weights, not {weights:,}"
        )
    return size, counts[size]


def _recurrent(
    task: Task, run: Callable[[Tensor, Tensor], Tensor], width: int = EMBEDDING
) -> keras.Model:
    """Makes a network from a function of the embedded story and places."""
    story = keras.Input((None,), dtype="int32", name="story")  # (B, L)
    places = keras.Input((task.answers,), dtype="int32", name="places")  # (B, K)
    embed = keras.layers.Embedding(
        task.vocabulary,
        width,
        embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0),
        name="words",
    )
    x = run(embed(story), embed(places))  # (B, K, ·)
    logits = keras.layers.Dense(task.vocabulary, name="answer")(x)
    return keras.Model({"story": story, "places": places}, logits)


def _whole(layer: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """Returns a function that reads all steps, and keeps the answer steps."""

    def run(story: Tensor, places: Tensor) -> Tensor:
        x = layer(ops.concatenate([story, places], axis=1))
        return x[:, -places.shape[1] :]

    return run


def _rnn(task: Task, units: int) -> keras.Model:
    return _recurrent(task, _whole(keras.layers.LSTM(units, return_sequences=True)))


def _attention(task: Task, units: int) -> keras.Model:
    def run(story: Tensor, places: Tensor) -> Tensor:
        reader = keras.layers.LSTM(units, return_sequences=True, return_state=True)
        memory, *state = reader(story)
        writer = layers.AttentionRNN(
            keras.layers.LSTMCell(units),
            layers.BahdanauAttention(units),
            return_sequences=True,
        )
        return writer(places, memory, initial_state=state)

    return _recurrent(task, run)


def _dnc(task: Task, units: int) -> keras.Model:
    cell = layers.DNCCell(keras.layers.LSTMCell(units), SLOTS, WORD, read_heads=2)
    return _recurrent(task, _whole(layers.DNC(cell, return_sequences=True)))


def _ntm(task: Task, units: int) -> keras.Model:
    cell = layers.NTMCell(keras.layers.LSTMCell(units), SLOTS, WORD, read_heads=2)
    return _recurrent(task, _whole(layers.DNC(cell, return_sequences=True)))


def _blocks(attention: Callable[[], Any]) -> Callable[[Task, int], keras.Model]:
    """Returns a function that makes an encoder of two blocks."""

    def build(task: Task, intermediate_dim: int) -> keras.Model:
        def encode(x: Tensor) -> Tensor:
            x = x + layers.SinePositionEncoding()(x)
            for _ in range(2):
                x = layers.TransformerEncoderBlock(
                    intermediate_dim=intermediate_dim,
                    attention=attention(),
                    norm_first=True,
                )(x)
            return keras.layers.LayerNormalization()(x)

        return _recurrent(task, _whole(encode), WIDTH)

    return build


def _universal(task: Task, intermediate_dim: int) -> keras.Model:
    def encode(x: Tensor) -> Tensor:
        block = layers.TransformerEncoderBlock(HEADS, intermediate_dim, norm_first=True)
        x = layers.DepthRecurrence(block, STEPS, "adaptive")(x)
        return keras.layers.LayerNormalization()(x)

    return _recurrent(task, _whole(encode), UNIVERSAL)


def _memn2n(task: Task, embedding_dim: int) -> keras.Model:
    facts = task.stories(1, [0]).facts.shape[1]  # no slot stays empty
    return models.MemN2N(task.vocabulary, embedding_dim, HOPS, memory_size=facts)


def _memnn(task: Task, embedding_dim: int) -> keras.Model:
    supports = task.stories(1, [0]).supports.shape[-1]
    return models.MemNN(
        task.vocabulary,
        embedding_dim,
        supports,
        adaptive=True,
        hop_versions=True,
    )


FAMILIES: dict[str, Family] = {
    "rnn": Family("RNN", "an LSTM", _rnn),
    "lstm-attention": Family(
        "LSTM with attention",
        "an LSTM reads, another one answers with attention over the states of the "
        "first (Bahdanau et al.)",
        _attention,
    ),
    "memn2n": Family(
        "MemN2N", f"{HOPS} hops over the facts", _memn2n, reads="questions"
    ),
    "memnn": Family(
        "MemNN",
        "retrieves the supporting facts, which training shows it",
        _memnn,
        reads="supports",
    ),
    "transformer": Family(
        "Transformer",
        f"two encoder blocks of width {WIDTH} with {HEADS} heads",
        _blocks(lambda: layers.MultiHeadAttention(HEADS, WIDTH // HEADS)),
        (4, 1024),
    ),
    "universal": Family(
        "Universal Transformer",
        f"one block of width {UNIVERSAL}, applied up to {STEPS} times, with adaptive "
        "halting",
        _universal,
        (4, 1024),
    ),
    "dnc": Family(
        "DNC",
        f"an LSTM with {SLOTS} slots of width {WORD}, 2 read heads and dense links",
        _dnc,
    ),
    "ntm": Family(
        "NTM", f"an LSTM with {SLOTS} slots of width {WORD} and 2 read heads", _ntm
    ),
    "hopfield": Family(
        "Hopfield",
        f"the Transformer with modern Hopfield layers of {HOPS} updates in place of "
        "its attention",
        _blocks(lambda: layers.Hopfield(HEADS, WIDTH // HEADS, update_steps=HOPS)),
        (4, 1024),
    ),
}
