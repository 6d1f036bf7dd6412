"""Attentions and what holds them: the rows and columns of `test_composition.py`.

Shapes: B batch, T queries, S keys, D width of inputs, K vocabulary.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from gradients import to_numpy

from keras_attention import layers, models

B, T, S, D, K = 3, 3, 5, 7, 13
IMAGE = (
    4,
    18,
    1,
)  # of which the encoder of `ImageCaptioner` makes 1 row of S positions
WIDTH = 11  # of what it makes of each position, 8 of them for where that is
START = 2
LENGTH = 7  # of a memory with more padding, and of a cache

# Sizes that fit any query and memory; together they name each score and normalizer.
# Sources of `generate` are padded to a multiple of 16, which is below 17.
ATTENTIONS: dict[str, Callable[..., Any]] = {
    "dot": lambda **k: layers.Attention("dot", **k),
    "scaled_dot": lambda **k: layers.Attention("scaled_dot", "sparsemax", **k),
    "cosine": lambda **k: layers.Attention("cosine", **k),
    "rbf": lambda **k: layers.Attention("rbf", **k),
    "general": lambda **k: layers.Attention("general", "entmax15", **k),
    "additive": lambda **k: layers.Attention(layers.AdditiveScore(5), **k),
    "concat": lambda **k: layers.Attention(layers.ConcatScore(5), **k),
    "location": lambda **k: layers.Attention(layers.LocationScore(17), **k),
    "bahdanau": lambda **k: layers.BahdanauAttention(5, **k),
    "luong": lambda **k: layers.LuongAttention("general", **k),
    "local-m": lambda **k: layers.LuongAttention("dot", "local-m", 1, **k),
    "local-p": lambda **k: layers.LuongAttention("general", "local-p", 2, **k),
    "monotonic": lambda **k: layers.MonotonicAttention(inference_mode=None, **k),
    "hard": lambda **k: layers.HardAttention(**k),
    "hop": lambda **k: layers.MemoryHop(transform=True, **k),
    "multi_head": lambda **k: layers.MultiHeadAttention(2, 3, **k),
    "rotary": lambda **k: layers.MultiHeadAttention(3, 2, position="rotary", **k),
    "grouped": lambda **k: layers.MultiHeadAttention(4, 3, num_key_value_heads=2, **k),
    "hopfield": lambda **k: layers.Hopfield(2, 3, update_steps=2, **k),
    "fast_weights": lambda **k: layers.FastWeightAttention(2, 3, rule="linear", **k),
    "keras_multi_head": lambda **k: keras.layers.MultiHeadAttention(2, 3, **k),
    "keras_window": lambda **k: ATTENTIONS["keras_multi_head"](sliding_window=2, **k),
    "keras_grouped": lambda **k: keras.layers.GroupQueryAttention(3, 4, 2, **k),
    "keras_additive": lambda **k: keras.layers.AdditiveAttention(**k),
}


ALL = np.ones((B, T), bool)


class Holder(NamedTuple):
    """What holds an attention: how to make a model of it, and what to call it with."""

    make: Callable[[Any], keras.Model]
    inputs: dict[str, np.ndarray]
    labels: np.ndarray
    is_valid: Callable[[Any], np.ndarray]  # of the model, who may attend: (B, ·, S)
    changed: dict[str, np.ndarray]  # other numbers where nobody may attend
    compared: np.ndarray = ALL  # (B, T), which outputs must then be the same
    path: str = "decoder"  # of the map that is recorded
    generates: bool = False


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def given(**arrays: np.ndarray) -> dict[str, Any]:
    """Symbols for inputs whose batch and lengths are not known."""
    return {
        name: keras.Input(
            (None,) * (x.ndim - 1) if x.ndim < 3 else (None, x.shape[-1]),
            dtype=str(x.dtype),
            name=name,
        )
        for name, x in arrays.items()
    }


# One memory is whole, of one a part may be seen, of one nothing.
MEMORY_MASK = np.ones((B, S), bool)
MEMORY_MASK[1, [0, 3]] = MEMORY_MASK[2] = False
INPUTS_MASK = np.ones((B, T), bool)
INPUTS_MASK[1, 0] = INPUTS_MASK[2] = False
X, MEMORY = numbers(B, T, D), numbers(B, S, D, seed=1)
OTHER_X = np.where(INPUTS_MASK[..., None], X, 9 * numbers(B, T, D, seed=2))
OTHER = np.where(MEMORY_MASK[..., None], MEMORY, 9 * numbers(B, S, D, seed=3))
CAUSAL = np.tril(np.ones((T, T), bool))
SOURCE = np.random.default_rng(4).integers(3, K, (B, S))
SOURCE[1, 3:] = SOURCE[2, 1:] = 0
LONGER = np.pad(SOURCE, ((0, 0), (0, LENGTH - S)))
TARGET = np.random.default_rng(5).integers(3, K, (B, T + 1))
TARGET[:, 0] = START
PIXELS = 0.3 * numbers(B, *IMAGE, seed=6)
PIXELS[1, :, 8:] = PIXELS[2] = 0


def rnn(order: str) -> Holder:
    def make(attention: Any) -> keras.Model:
        x = given(inputs=X, memory=MEMORY, memory_mask=MEMORY_MASK)
        held = layers.AttentionRNN(
            keras.layers.GRUCell(D),
            attention,
            order,
            return_sequences=True,
            name="decoder",
        )
        return keras.Model(x, held(**x))

    inputs = {"inputs": X, "memory": MEMORY, "memory_mask": MEMORY_MASK}
    return Holder(
        make,
        inputs,
        numbers(B, T, 2 * D, seed=7),
        lambda model: MEMORY_MASK[:, None],
        {**inputs, "memory": OTHER},
    )


def seq2seq() -> Holder:
    def make(attention: Any) -> keras.Model:
        # In one direction, what is read is as wide as what asks.
        sizes = {"embedding_dim": 3, "units": D, "bidirectional": False}
        return models.Seq2Seq(K, K, attention=attention, **sizes)

    inputs = {"source": SOURCE, "target": TARGET[:, :-1]}
    return Holder(
        make,
        inputs,
        TARGET[:, 1:],
        lambda model: (SOURCE != 0)[:, None],
        {**inputs, "source": LONGER},
        generates=True,
    )


def captioner() -> Holder:
    def make(attention: Any) -> keras.Model:
        sizes = {"embedding_dim": 3, "units": WIDTH, "filters": (2, WIDTH - 8)}
        return models.ImageCaptioner(IMAGE, K, attention=attention, **sizes)

    inputs = {"image": PIXELS, "target": TARGET[:, :-1]}

    def is_valid(model: Any) -> np.ndarray:
        """What is blank in the encoder's eyes is hidden; it cannot be changed."""
        features = to_numpy(model.encoder(PIXELS))
        return (features != 0).any(-1).reshape(B, 1, S)

    return Holder(make, inputs, TARGET[:, 1:], is_valid, inputs, generates=True)


def encoder() -> Holder:
    def make(attention: Any) -> keras.Model:
        x = given(inputs=X, mask=INPUTS_MASK)
        held = layers.TransformerEncoderBlock(
            intermediate_dim=11, attention=attention, name="block"
        )
        return keras.Model(x, held(**x))

    inputs = {"inputs": X, "mask": INPUTS_MASK}
    return Holder(
        make,
        inputs,
        numbers(B, T, D, seed=7),
        lambda model: INPUTS_MASK[:, None] & INPUTS_MASK[:, :, None],
        {**inputs, "inputs": OTHER_X},
        INPUTS_MASK,
        "block/asker",
    )


def decoder(cross: bool) -> Holder:
    def make(attention: Any) -> keras.Model:
        x = given(
            inputs=X, memory=MEMORY, inputs_mask=INPUTS_MASK, memory_mask=MEMORY_MASK
        )
        one, other = attention, layers.Attention("dot", name="other")
        held = layers.TransformerDecoderBlock(
            intermediate_dim=11,
            attention=other if cross else one,
            cross_attention=one if cross else other,
            name="block",
        )
        return keras.Model(x, held(**x))

    inputs = {
        "inputs": X,
        "memory": MEMORY,
        "inputs_mask": INPUTS_MASK,
        "memory_mask": MEMORY_MASK,
    }
    asked = INPUTS_MASK[:, :, None]
    own = CAUSAL & asked & INPUTS_MASK[:, None]
    return Holder(
        make,
        inputs,
        numbers(B, T, D, seed=7),
        lambda model: asked & MEMORY_MASK[:, None] if cross else own,
        {**inputs, "inputs": OTHER_X, "memory": OTHER},
        INPUTS_MASK,
        "block/asker",
    )


HOLDERS: dict[str, Holder] = {
    "AttentionRNN-before": rnn("before"),
    "AttentionRNN-after": rnn("after"),
    "Seq2Seq": seq2seq(),
    "ImageCaptioner": captioner(),
    "TransformerEncoderBlock": encoder(),
    "TransformerDecoderBlock-self": decoder(False),
    "TransformerDecoderBlock-cross": decoder(True),
}
