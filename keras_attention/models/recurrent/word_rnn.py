"""A recurrent language model: one state stores the whole text so far.

Shapes: B batch, T tokens, D width of an embedding, U units, V vocabulary.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import fraction
from keras_attention.layers.base.cells import call_cell
from keras_attention.layers.base.keep_mask import pass_masks
from keras_attention.layers.base.serialization import export
from keras_attention.models.base.configured_model import ConfiguredModel, check_sizes
from keras_attention.models.base.generation import ContinuesPrompts
from keras_attention.models.base.strings import Completes
from keras_attention.models.recurrent import token_decoder
from keras_attention.numerics import masks
from keras_attention.ops.sequence import decoding

Tensor = Any
LOOPS = {**token_decoder.LOOPS, "simple": keras.layers.SimpleRNN}


@export
class WordRNN(Completes, ContinuesPrompts, ConfiguredModel):
    """A recurrent network that reads words and predicts the next word.

        xₜ = dropout(E[yₜ])
        hₜ = cell(xₜ, hₜ₋₁)                    for each of the `num_layers` cells
        p(yₜ₊₁ | y₀ … yₜ) = softmax(W dropout(hₜ) + b)

    The model stores all previous words in hₜ, whose width does not depend on their
    number. Attention removes this limit.

    Train the model with sequences as inputs and the same sequences, shifted by one
    token, as labels. The loss `SparseCategoricalCrossentropy(from_logits=True,
    ignore_class=0)` ignores padding.

    Args:
        vocabulary_size: V, the number of tokens, including padding 0.
        embedding_dim: D, the width of the embedding.
        units: U, the units of each cell.
        cell: "gru", "lstm", or "simple" for h = tanh(W x + U h + b).
        num_layers: the number of recurrent layers. Each layer reads the states of the
            layer below.
        dropout: the dropout rate of the embedding and of each layer's states.
        tie_embeddings: whether W is E. This requires D = U, and omits b.

    Inputs: a dict of
        tokens: int32 (B, T), 0 is padding.

    Unlike `generate`, a call does not check the tokens. A token outside the vocabulary
    gives NaN on JAX and a backend error on the other backends.

    Returns:
        Logits (B, T, V).

    Masking:
        Padding at any position leaves the state unchanged. The logits of padding are
        meaningless.

    Raises:
        ValueError: for sizes below 1, an unknown cell, a dropout outside [0, 1), or
            tied embeddings with D ≠ U. Calls also raise it for ids in NumPy arrays that
            are below 0 or not below the number of ids.

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
        Elman, "Finding structure in time" (1990): the simple cell, with h instead of
        his context units; Mikolov et al., "Recurrent neural network based language
        model" (2010), section 2; dropout only between the layers: Zaremba et al.,
        "Recurrent neural network regularization" (2014); tied embeddings: Press & Wolf,
        "Using the output embedding to improve language models" (2017).
    """

    id_sizes: ClassVar[dict[str, str]] = {"tokens": "vocabulary_size"}

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
        token_decoder.check_cell(cell, LOOPS)
        fraction("dropout", dropout)
        if tie_embeddings and embedding_dim != units:
            raise ValueError(
                "`embedding_dim` must be `units` with `tie_embeddings`, since logits "
                "are products of states with embeddings. Received: "
                f"embedding_dim={embedding_dim}, units={units}"
            )
        parts = _Parts()
        parts.embedding = token_decoder.word_embedding(
            vocabulary_size, embedding_dim, "embedding", dtype, tie_embeddings
        )
        parts.dense = None
        if not tie_embeddings:
            parts.dense = keras.layers.Dense(
                vocabulary_size, dtype=dtype, name="logits"
            )
        options = {"return_sequences": True, "return_state": True, "dtype": dtype}
        parts.loops = [
            pass_masks(LOOPS[cell](units, name=f"{cell}_{n}", **options))
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

    @property
    def positions(self) -> None:
        """None, because the length of a sequence is unlimited."""
        return None

    def begin(
        self, inputs: dict[str, Tensor], length: int
    ) -> tuple[list[Any], tuple[()]]:
        """Processes all tokens of each prompt except the last one.

        Args:
            inputs: {"tokens": (B, P), padded at the end, "length": (B,) of each
                prompt}.
            length: the maximum total number of tokens per row. The model does not use
                it, because the size of its state is fixed.

        Returns:
            The states of each layer, and the read-only arguments of `next`, an empty
            tuple.
        """
        tokens = ops.cast(inputs["tokens"], "int32")[:, :-1]
        last = ops.cast(inputs["length"], "int32")[:, None] - 1  # (B, 1)
        is_valid = masks.positions(ops.shape(tokens)[1])[None] < last
        return self._parts.read(tokens, is_valid)[1], ()

    def next(
        self, prompt: Tensor, cache: list[Any], index: Any, static: Any = ()
    ) -> tuple[Tensor, Tensor, list[Any]]:
        parts, states = self._parts, []
        x = parts.embedding(decoding.read(prompt, index - 1))  # (B, D)
        for loop, state in zip(parts.loops, cache):
            x, state = call_cell(loop.cell, x, state, False)
            states.append(list(state))
        return parts.logits(x), x, states


class _Parts(SimpleNamespace):
    """The layers of a `WordRNN`, shared by its graph and its generation."""

    def read(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, list[Any]]:
        """Returns the last layer's states (B, T, U) and each layer's final states."""
        x = self.dropouts[0](self.embedding(tokens))  # (B, T, D)
        last = []
        for loop, dropout in zip(self.loops, self.dropouts[1:]):
            x, *state = loop(x, mask=mask)
            last.append(state)
            x = dropout(x)
        # As in the other models, logits have no mask: the labels mask more steps.
        return ops.where(ops.expand_dims(mask, -1), x, ops.zeros_like(x)), last

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the logits (..., V) of states (..., U)."""
        if self.dense is None:
            return self.embedding(hidden, reverse=True)
        return self.dense(hidden)
