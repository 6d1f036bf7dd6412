"""One network per memory, with about the same number of weights.

Readers of tokens map "tokens" (B, T) to logits (B, V): the story, then the question.
Readers of sentences map "story" (B, S, L) and "question" (B, L) to logits (B, V).

Shapes: B batch, T tokens, S sentences, L words, V vocabulary, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention import layers, models
from studies.long_stories.stories import WORDS

Tensor = Any

WEIGHTS, TOLERANCE = 100_000, 0.2
WIDTH, HEADS = 32, 4  # of all readers of tokens and of the Universal Transformer
BLOCKS, WINDOW = 2, 128
AGES = 128  # of sentences that a network tells apart; older ones share one
HOPS = 3
SLOTS, WORD = 32, 16  # of the DNC


class Task(NamedTuple):
    """A task's number, V, and K, the number of supporting facts."""

    number: int
    vocabulary: int
    supports: int


class Family(NamedTuple):
    """A model family.

    Attributes:
        name: the name in tables.
        build: a function of a task and a size that returns a network. The number of
            weights increases with the size.
        reads: "tokens", "sentences", or "supports": sentences, with supporting facts
            in training.
        rate: the learning rate.
    """

    name: str
    build: Callable[[Task, int], keras.Model]
    reads: str = "tokens"
    rate: float = 2e-3


def sized(family: Family, task: Task, weights: int = WEIGHTS) -> tuple[int, int]:
    """Finds the size with the number of weights closest to `weights`.

    Returns:
        The size, a multiple of 4, and the number of weights.

    Raises:
        ValueError: the closest number differs by more than `TOLERANCE`.
    """
    low, high = 1, 256
    counts = {n: family.build(task, 4 * n).count_params() for n in (low, high)}
    while high - low > 1:
        middle = (low + high) // 2
        counts[middle] = family.build(task, 4 * middle).count_params()
        low, high = (middle, high) if counts[middle] < weights else (low, middle)
    size = min((low, high), key=lambda n: abs(counts[n] - weights))
    if abs(counts[size] - weights) > TOLERANCE * weights:
        raise ValueError(f"{family.name} has {counts[size]:,} weights, not {weights:,}")
    return 4 * size, counts[size]


def _tokens(task: Task, run: Callable[[Tensor], Tensor]) -> keras.Model:
    """Makes a network from a function of the embedded tokens to one vector."""
    tokens = keras.Input((None,), dtype="int32", name="tokens")  # (B, T)
    embed = keras.layers.Embedding(
        task.vocabulary,
        WIDTH,
        embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0),
    )
    x = run(embed(tokens))  # (B, D)
    return keras.Model(
        {"tokens": tokens}, keras.layers.Dense(task.vocabulary, name="answer")(x)
    )


def _causal(attention: Callable[[], Any]) -> Callable[[Task, int], keras.Model]:
    """Returns a function that makes blocks that read from left to right."""

    def build(task: Task, intermediate_dim: int) -> keras.Model:
        def run(x: Tensor) -> Tensor:
            for _ in range(BLOCKS):
                x = layers.TransformerEncoderBlock(
                    intermediate_dim=intermediate_dim,
                    attention=attention(),
                    norm_first=True,
                )(x, use_causal_mask=True)
            return keras.layers.LayerNormalization()(x[:, -1])

        return _tokens(task, run)

    return build


def _window(sinks: bool) -> Callable[[], Any]:
    return lambda: layers.MultiHeadAttention(
        HEADS,
        WIDTH // HEADS,
        sliding_window=WINDOW,
        position="rotary",
        attention_sinks=sinks,
    )


def _fast(rule: str, decay: str | None) -> Callable[[], Any]:
    # All three have the layer's convolution of keys and values: they have no positions.
    return lambda: layers.FastWeightAttention(
        HEADS, WIDTH // HEADS, rule=rule, decay=decay
    )


def _lstm_attention(task: Task, units: int) -> keras.Model:
    def run(x: Tensor) -> Tensor:
        story, question = x[:, : -WORDS - 1], x[:, -WORDS - 1 :]
        reader = keras.layers.LSTM(units, return_sequences=True, return_state=True)
        memory, *state = reader(story)  # (B, T, units)
        writer = layers.AttentionRNN(
            keras.layers.LSTMCell(units), layers.BahdanauAttention(units)
        )
        return writer(question, memory, initial_state=state)

    return _tokens(task, run)


def _dnc(task: Task, units: int) -> keras.Model:
    cell = layers.DNCCell(keras.layers.LSTMCell(units), SLOTS, WORD, read_heads=2)
    return _tokens(task, layers.DNC(cell))


def _memn2n(task: Task, embedding_dim: int) -> keras.Model:
    return models.MemN2N(
        task.vocabulary, embedding_dim, HOPS, memory_size=AGES, null_memories=False
    )


def _universal(task: Task, intermediate_dim: int) -> keras.Model:
    return models.UniversalTransformer(
        task.vocabulary,
        WIDTH,
        HEADS,
        intermediate_dim,
        steps=4,
        memory_size=AGES,
        dropout=0.0,
        block={"norm_first": True},
    )


def _hopfield(task: Task, dim: int) -> keras.Model:
    """Hopfield layers that the question queries; sentences have ages as in MemN2N."""
    story = keras.Input((None, None), dtype="int32", name="story")  # (B, S, L)
    question = keras.Input((None,), dtype="int32", name="question")  # (B, L)
    encode = layers.SentenceEncoder(task.vocabulary, dim)
    age = layers.MemoryAge(AGES)(story)  # (B, S)
    memory = encode(story) + keras.layers.Embedding(AGES + 1, dim)(age)  # (B, S, D)
    is_filled = ops.any(ops.not_equal(story, 0), axis=-1)  # (B, S)
    x = encode(question)  # (B, D)
    for _ in range(HOPS):
        hop = layers.Hopfield(HEADS, update_steps=2, trainable_beta=True)
        x = x + hop(x, memory, value_mask=is_filled)
        x = keras.layers.LayerNormalization()(x)
    logits = keras.layers.Dense(task.vocabulary, name="answer")(x)
    return keras.Model({"story": story, "question": question}, logits)


def _memnn(task: Task, embedding_dim: int) -> keras.Model:
    # The questions of tasks 4 and 5 differ in the order of their words.
    rich: dict[str, Any] = {"ngrams": 3, "buckets": 1009, "nonlinear": True}
    return models.MemNN(
        task.vocabulary,
        embedding_dim,
        task.supports,
        hop_versions=task.supports > 1,
        **(rich if task.number > 3 else {}),
    )


FAMILIES: dict[str, Family] = {
    "memnn": Family("MemNN over a large memory", _memnn, "supports", 1e-2),
    "memn2n": Family("MemN2N", _memn2n, "sentences", 1e-2),
    "hopfield": Family("Hopfield over sentences", _hopfield, "sentences"),
    "universal": Family("Universal Transformer", _universal, "sentences"),
    "lstm-attention": Family("LSTM with attention", _lstm_attention),
    "dnc": Family("DNC", _dnc),
    "window": Family("Transformer, window", _causal(_window(False))),
    "sinks": Family("Transformer, window and sinks", _causal(_window(True))),
    "linear": Family("Transformer, linear", _causal(_fast("linear", None))),
    "delta": Family("Transformer, delta", _causal(_fast("delta", None))),
    "gated-delta": Family("Transformer, gated delta", _causal(_fast("delta", "head"))),
}
