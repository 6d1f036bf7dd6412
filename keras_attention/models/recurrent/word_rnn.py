"""A recurrent language model: all that was read is one state.

Shapes: B batch, T tokens, D width of an embedding, U units, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import fraction
from keras_attention.layers.base.cells import call_cell
from keras_attention.layers.base.serialization import export
from keras_attention.models.base.arguments import check_sizes
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.base.continuation import Continuation
from keras_attention.models.base.generation import named_input
from keras_attention.ops.sequence import decoding

Tensor = Any
LOOPS = {
    "gru": keras.layers.GRU,
    "lstm": keras.layers.LSTM,
    "simple": keras.layers.SimpleRNN,
}


@export
class WordRNN(ConfiguredModel):
    """A next-word network: it reads a word, and says what the next one may be.

        xₜ = dropout(E[yₜ])
        hₜ = cell(xₜ, hₜ₋₁)                    as many cells as `num_layers`
        p(yₜ₊₁ | y₀ … yₜ) = softmax(W dropout(hₜ) + b)

    It knows what it has read by hₜ alone, which is as wide after a thousand words as
    after one: what attention is for begins there.

    It is trained on sequences and the same sequences one token further; a loss that
    leaves out padding is `SparseCategoricalCrossentropy(from_logits=True,
    ignore_class=0)`.

    Args:
        vocabulary_size: V, the number of tokens, padding 0 included.
        embedding_dim: D.
        units: U.
        cell: "gru", "lstm" or "simple", h = tanh(W x + U h + b).
        num_layers: how many such layers; one reads the states of the one below.
        dropout: of the embedding and of each layer's states.
        tie_embeddings: whether W is E itself, which D = U needs; b is left out then.

    Inputs: a dict of
        tokens: int32 (B, T), 0 is padding.

    A call does not look at tokens, as `generate` does: one outside the vocabulary gives
    NaN on JAX, and an error of the backend on others.

    Returns:
        Logits (B, T, V).

    Masking:
        Padding leaves the state as it was, wherever it stands; its own logits mean
        nothing.

    Raises:
        ValueError: for sizes below 1, an unknown cell, a dropout that is not at least 0
            and below 1, or tied embeddings that are not as wide as states.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import WordRNN
    >>> model = WordRNN(11, embedding_dim=5, units=7)
    >>> prompts = np.array([[5, 6, 7], [8, 0, 0]])
    >>> tuple(model({"tokens": prompts}).shape)
    (2, 3, 11)
    >>> model.generate({"tokens": prompts}, max_length=4).shape
    (2, 4)

    Reference:
        Elman, "Finding structure in time" (1990): the simple cell, h in the place of
        his context units; Mikolov et al., "Recurrent neural network based language
        model" (2010), section 2; dropout between the layers alone: Zaremba et al.,
        "Recurrent neural network regularization" (2014); tied embeddings: Press & Wolf,
        "Using the output embedding to improve language models" (2017).
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 128,
        units: int = 256,
        cell: str = "lstm",
        num_layers: int = 1,
        dropout: float = 0.0,
        tie_embeddings: bool = False,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        check_sizes(
            vocabulary_size=vocabulary_size,
            embedding_dim=embedding_dim,
            units=units,
            num_layers=num_layers,
        )
        if cell not in LOOPS:
            raise ValueError(
                f"`cell` must be one of {sorted(LOOPS)}. Received: cell={cell!r}"
            )
        fraction("dropout", dropout)
        if tie_embeddings and embedding_dim != units:
            raise ValueError(
                "`embedding_dim` must be `units` with `tie_embeddings`, since logits "
                "are products of states with embeddings. Received: "
                f"embedding_dim={embedding_dim}, units={units}"
            )
        parts = _Parts()
        initializer = keras.initializers.RandomNormal(stddev=embedding_dim**-0.5)
        if tie_embeddings:
            parts.embedding = keras.layers.ReversibleEmbedding(
                vocabulary_size,
                embedding_dim,
                # Without it, logits would be in the dtype of the weights.
                reverse_dtype=keras.dtype_policies.get(dtype).compute_dtype,
                embeddings_initializer=initializer,
                dtype=dtype,
                name="embedding",
            )
            parts.dense = None
        else:
            parts.embedding = keras.layers.Embedding(
                vocabulary_size,
                embedding_dim,
                embeddings_initializer=initializer,
                dtype=dtype,
                name="embedding",
            )
            parts.dense = keras.layers.Dense(
                vocabulary_size, dtype=dtype, name="logits"
            )
        parts.loops = [
            LOOPS[cell](
                units,
                return_sequences=True,
                return_state=True,
                dtype=dtype,
                name=f"{cell}_{n}",
            )
            for n in range(num_layers)
        ]
        parts.dropouts = [
            keras.layers.Dropout(dropout, dtype=dtype, name=f"dropout_{n}")
            for n in range(num_layers + 1)
        ]
        tokens = keras.Input((None,), dtype="int32", name="tokens")  # (B, T)
        hidden, _ = parts.read(tokens, ops.not_equal(tokens, 0))
        super().__init__({"tokens": tokens}, parts.logits(hidden), locals())
        self._parts = parts
        self._continuation = Continuation(self)

    @property
    def positions(self) -> None:
        """None: a sequence may be of any length."""
        return None

    def begin(
        self, inputs: dict[str, Tensor], length: int
    ) -> tuple[list[Any], tuple[()]]:
        """Reads prompts, all but the last token of each: what `next` needs behind them.

        Args:
            inputs: {"tokens": (B, P), padding behind, "length": (B,) of each prompt}.
            length: how many tokens a row may have in the end; the state is as wide.

        Returns:
            The states of each layer, and what `next` only reads, which is nothing.
        """
        tokens = ops.cast(inputs["tokens"], "int32")[:, :-1]
        last = ops.cast(inputs["length"], "int32")[:, None] - 1  # (B, 1)
        is_valid = ops.arange(tokens.shape[1])[None] < last
        return self._parts.read(tokens, is_valid)[1], ()

    def next(
        self, prompt: Tensor, cache: list[Any], index: Any, static: Any = ()
    ) -> tuple[Tensor, Tensor, list[Any]]:
        """Logits of the token at a place, from the one in front of it.

        KerasHub's protocol; see `keras_attention.samplers`.

        Args:
            prompt: (B, T).
            cache: what `begin` or the last call returned.
            index: the place, at least 1.
            static: what `begin` returned.

        Returns:
            Logits (B, V), the last layer's state (B, U), and the states of each layer.
        """
        parts, states = self._parts, []
        x = parts.embedding(decoding.read(prompt, index - 1))  # (B, D)
        for loop, state in zip(parts.loops, cache):
            x, state = call_cell(loop.cell, x, state, False)
            states.append(list(state))
        return parts.logits(x), x, states

    def generate(
        self,
        inputs: Any,
        max_length: int = 64,
        sampler: Any = "greedy",
        stop_token_ids: Any = None,
        seed: int | None = None,
        num_sequences: int = 1,
    ) -> np.ndarray:
        """Goes on from prompts, which may be of unequal length.

        Each prompt is read once; then a step for each token works on the states. That
        is compiled once for each batch size and bucket of lengths, see
        `keras_attention.ops.sequence.decoding.bucket`.

        Args:
            inputs: {"tokens": (B, ·)}, or the array alone, integers, 0 behind shorter
                prompts; or a list of lists of integers.
            max_length: how many tokens to write at most, the prompt not counted.
            sampler: "greedy", "beam", "random", "top_k", "top_p", or a sampler of
                `keras_attention.samplers` or of KerasHub.
            stop_token_ids: the token, or tokens, that end a sequence; None for none.
            seed: of a sampler that leaves something to chance.
            num_sequences: N, how many sequences to write for each prompt.

        Returns:
            int32 (B, max_length), or (B, N, max_length) for N above 1, as
            `CausalLM.generate`.

        Raises:
            ValueError: for prompts that are no integers (B, ·), have no token or
                padding that is not behind them, tokens outside the vocabulary, or a
                `max_length` or `num_sequences` below 1.
        """
        return self._continuation(
            named_input("tokens", inputs),
            max_length,
            sampler,
            stop_token_ids,
            seed,
            num_sequences,
        )


class _Parts:
    """The layers of a `WordRNN`, which its graph and its decoding share."""

    embedding: Any
    loops: list[Any]
    dropouts: list[Any]
    dense: Any

    def read(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, list[Any]]:
        """The last layer's states (B, T, U), and what each layer's are behind it."""
        x = self.dropouts[0](self.embedding(tokens))  # (B, T, D)
        last = []
        for loop, dropout in zip(self.loops, self.dropouts[1:]):
            x, *state = loop(x, mask=mask)
            last.append(state)
            x = dropout(x)
        # As of the other language models, logits carry no mask: labels leave out more.
        return ops.where(mask[..., None], x, ops.zeros_like(x)), last

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (..., V) of states (..., U)."""
        if self.dense is None:
            return self.embedding(hidden, reverse=True)
        return self.dense(hidden)
