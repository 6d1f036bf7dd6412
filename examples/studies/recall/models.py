"""One network for each kind of memory, with equal numbers of weights.

A network maps "tokens" (B, T) and "queries" (B, K), the positions whose next token it
predicts, to logits (B, K, V). Logits at other positions are not computed.

    x = E[tokens]
    x ← x + convolution(x)                the short convolution, in each network
    logits = E norm(memory(x))            at the queries

Shapes: B batch, T tokens, K queries, D width of the model, V vocabulary, W width of the
convolution.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention import layers, models

Tensor = Any

VOCABULARY = 8192
BLOCKS = 2
CONVOLUTION = 3  # W
STEPS = 4  # how often the Universal Transformer applies its block, at most
UPDATES = 3  # of the Hopfield layers
SLOTS, WORD = 64, 64  # of the DNC's memory
TOLERANCE = 0.05


class ShortConvolution(keras.layers.Layer):
    """Adds up the last W tokens, each channel with W weights of its own.

        yₜ = Σᵢ kᵢ ⊙ xₜ₋ᵢ,  i = 0 … W − 1

    It is the `position` of the models, so that a token knows the one before it.

    Args:
        width: W.
    """

    def __init__(self, width: int = CONVOLUTION, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width = width

    def build(self, inputs_shape: Any) -> None:
        self.kernel = self.add_weight(shape=(self.width, inputs_shape[-1]))
        self.built = True

    def call(self, inputs: Tensor, start: Any = 0) -> Tensor:
        length = ops.shape(inputs)[1]
        x = ops.pad(inputs, ((0, 0), (self.width - 1, 0), (0, 0)))
        parts = [
            x[:, self.width - 1 - i : self.width - 1 - i + length] * self.kernel[i]
            for i in range(self.width)
        ]
        return sum(parts[1:], parts[0])  # (B, T, D)

    def compute_output_spec(self, inputs: Tensor, start: Any = 0) -> Any:
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "width": self.width}


class Memory(NamedTuple):
    """A kind of memory.

    Attributes:
        name: the name in tables.
        description: one sentence for the results page.
        build: a function of D and a size that returns a network. The number of weights
            increases with the size.
        state: a function of D, the size and T that returns how many numbers the network
            must keep to go on after T tokens.
    """

    name: str
    description: str
    build: Callable[[int, int], keras.Model]
    state: Callable[[int, int, int], int]


def weights_of(model: keras.Model) -> int:
    """Returns the number of weights without the embeddings, which all models have."""
    embeddings = model.get_layer("token_embedding").count_params()
    return int(model.count_params() - embeddings)


@functools.cache
def transformer_weights(dim: int) -> int:
    """Returns the number of weights of the Transformer of width and size D."""
    return weights_of(MEMORIES["transformer"].build(dim, dim))


def sized(memory: Memory, dim: int) -> int:
    """Finds a size at which a network has as many weights as the Transformer.

    The size of the Transformer is D. The number of weights differs by at most
    `TOLERANCE`.

    Raises:
        ValueError: no size has this number of weights.
    """
    wanted = transformer_weights(dim)
    size, low, high = dim, 1, 16 * dim
    while low <= high:
        difference = weights_of(memory.build(dim, size)) - wanted
        if abs(difference) <= TOLERANCE * wanted:
            return size
        low, high = (low, size - 1) if difference > 0 else (size + 1, high)
        size = (low + high) // 2
    raise ValueError(f"{memory.name} cannot have {wanted:,} weights at width {dim}.")


def _at_queries(tokens: Tensor, hidden: Tensor, embedding: Any) -> keras.Model:
    """Makes a network from the hidden states (B, T, D) of the tokens."""
    queries = keras.Input((None,), dtype="int32", name="queries")  # (B, K)
    x = ops.take_along_axis(hidden, queries[..., None], axis=1)  # (B, K, D)
    logits = embedding(x, reverse=True)  # (B, K, V)
    return keras.Model({"tokens": tokens, "queries": queries}, logits)


def _language_model(attention: Callable[[int], Any]) -> Callable[[int, int], Any]:
    """Returns a function that makes a `CausalLM` with an attention layer."""

    def build(dim: int, intermediate_dim: int) -> keras.Model:
        model = models.CausalLM(
            VOCABULARY,
            BLOCKS,
            dim,
            intermediate_dim=intermediate_dim,
            dropout=0.0,
            position=ShortConvolution(),
            attention=attention(dim),
            pad_token_id=None,
        )
        hidden = model.get_layer("final_norm").output
        embedding = model.get_layer("token_embedding")
        return _at_queries(model.input["tokens"], hidden, embedding)

    return build


def _network(
    run: Callable[[Tensor, int, int], Tensor],
) -> Callable[[int, int], keras.Model]:
    """Returns a function that makes a network around `run(x, D, size)`."""

    def build(dim: int, size: int) -> keras.Model:
        tokens = keras.Input((None,), dtype="int32", name="tokens")  # (B, T)
        embedding = keras.layers.ReversibleEmbedding(
            VOCABULARY,
            dim,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=dim**-0.5),
            name="token_embedding",
        )
        x = embedding(tokens)
        x = keras.layers.LayerNormalization()(x + ShortConvolution()(x))
        x = keras.layers.LayerNormalization()(run(x, dim, size))  # (B, T, D)
        return _at_queries(tokens, x, embedding)

    return build


def _universal(x: Tensor, dim: int, intermediate_dim: int) -> Tensor:
    block = layers.TransformerEncoderBlock(
        intermediate_dim=intermediate_dim,
        activation="gelu",
        norm_first=True,
        attention=layers.MultiHeadAttention(1, dim),
    )
    depth = layers.DepthRecurrence(block, STEPS, "adaptive", position=None)
    return depth(x, use_causal_mask=True)


def _lstm(x: Tensor, dim: int, units: int) -> Tensor:
    h = keras.layers.LSTM(units, return_sequences=True)(x)  # (B, T, U)
    c = layers.LuongAttention("general")(h, h, use_causal_mask=True)
    h = ops.concatenate([c, h], axis=-1)  # (B, T, 2 U)
    return keras.layers.Dense(dim, activation="tanh")(h)


def _dnc(x: Tensor, dim: int, units: int) -> Tensor:
    cell = layers.DNCCell(
        keras.layers.LSTMCell(units), SLOTS, WORD, read_heads=1, output_units=dim
    )
    return layers.DNC(cell, return_sequences=True)(x)


def _fast(**options: Any) -> Callable[[int, int], keras.Model]:
    """Fast weights of one head, without a convolution of their own."""
    return _language_model(
        lambda dim: layers.FastWeightAttention(1, dim, kernel_size=None, **options)
    )


def _keys_and_values(dim: int, size: int, length: int) -> int:
    return BLOCKS * 2 * length * dim


def _matrices(dim: int, size: int, length: int) -> int:
    return BLOCKS * dim * dim


def _in_window(dim: int, size: int, length: int) -> int:
    return _keys_and_values(dim, size, min(length, dim // 2))


MEMORIES: dict[str, Memory] = {
    "transformer": Memory(
        "attention",
        "two blocks, each with one head",
        _language_model(lambda dim: layers.MultiHeadAttention(1, dim)),
        _keys_and_values,
    ),
    "window": Memory(
        "window",
        "the same; a token attends to the last D/2 tokens",
        _language_model(
            lambda dim: layers.MultiHeadAttention(1, dim, sliding_window=dim // 2)
        ),
        _in_window,
    ),
    "sinks": Memory(
        "window with sinks",
        "the same, with a learned sink score",
        _language_model(
            lambda dim: layers.MultiHeadAttention(
                1, dim, sliding_window=dim // 2, attention_sinks=True
            )
        ),
        _in_window,
    ),
    "linear": Memory(
        "linear attention",
        "a matrix that only adds; features elu(x) + 1 (Katharopoulos et al.)",
        _fast(rule="linear", decay=None),
        lambda dim, size, length: BLOCKS * dim * (dim + 1),
    ),
    "linear-rms": Memory(
        "linear attention, keys of length 1",
        "a matrix that only adds; queries, keys and outputs as in the delta rule",
        _fast(rule="linear", decay=None, normalization="rms"),
        _matrices,
    ),
    "delta": Memory(
        "delta rule",
        "a matrix that erases what the key held before it adds",
        _fast(rule="delta", decay=None),
        _matrices,
    ),
    "gated-delta": Memory(
        "gated delta rule",
        "the same, with a decay (Yang et al.)",
        _fast(rule="delta"),
        _matrices,
    ),
    "universal": Memory(
        "Universal Transformer",
        f"one block, applied up to {STEPS} times, with adaptive halting",
        _network(_universal),
        lambda dim, size, length: STEPS * 2 * length * dim,
    ),
    "lstm-attention": Memory(
        "LSTM with attention",
        "an LSTM that attends to its earlier states (Luong et al.)",
        _network(_lstm),
        lambda dim, size, length: (length + 2) * size,
    ),
    "hopfield": Memory(
        "Hopfield",
        f"the blocks with modern Hopfield layers of {UPDATES} updates",
        _language_model(lambda dim: layers.Hopfield(1, dim, update_steps=UPDATES)),
        _keys_and_values,
    ),
    "dnc": Memory(
        "DNC",
        f"an LSTM with {SLOTS} slots of width {WORD}, one read head and dense links",
        _network(_dnc),
        lambda dim, size, length: SLOTS * (SLOTS + WORD + 4) + WORD + 2 * size,
    ),
}
