"""What the models share that write tokens and attend to a memory at each of them.

Shapes: B batch, S keys, T tokens, H heads, D width of an embedding, U units of a cell.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.attention.bahdanau_attention import BahdanauAttention
from keras_attention.layers.attention.luong_attention import LuongAttention
from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.cells import call_cell
from keras_attention.layers.recurrent.attention_rnn import AttentionRNN
from keras_attention.ops.sequence import decoding

Tensor = Any
CELLS = {"gru": keras.layers.GRUCell, "lstm": keras.layers.LSTMCell}
LOOPS = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}


class TokenDecoder:
    """Embeddings, and a recurrence over them. Its layers belong to the model.

    Args:
        embedding: from tokens to vectors.
        rnn: an `AttentionRNN`; or without a memory a layer of Keras.
        attends: whether there is a memory.
    """

    def __init__(self, embedding: Any, rnn: Any, attends: bool = True) -> None:
        self.embedding = embedding
        self.rnn = rnn
        self.attends = attends

    def begin(
        self, memory: Tensor, state: list[Tensor], mask: Tensor, attended: Tensor
    ) -> tuple[dict[str, Any], Any]:
        """What `step` needs for the first token.

        Args:
            memory: (B, S, ·).
            state: of the cell.
            mask: booleans (B, S).
            attended: float32 (B, S), where "alignment_sum" begins.

        Returns:
            The cache that `step` changes, whose "alignment_sum" (B, S) tells a beam
            search how much each key has been attended to, and what it only reads.
        """
        if not self.attends:
            return {"state": state, "alignment_sum": attended}, ()
        prepared = self.rnn.prepare(memory, mask=mask)
        first = self.rnn.start(prepared, ops.shape(memory)[0], state)
        return {"state": first, "alignment_sum": attended}, prepared

    def step(
        self, prompt: Tensor, cache: dict[str, Any], index: Any, static: Any
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Reads the token in front of `index`.

        Returns:
            Its embedding (B, D), the output of the recurrence (B, ·), and the cache.
        """
        word = self.embedding(decoding.read(prompt, index - 1))  # (B, D)
        attended = cache["alignment_sum"]
        if self.attends:
            state, found = self.rnn.step(word, cache["state"], static)
            output = self.rnn.read_out(found)
            weights = average_heads(found.weights[0], 2)
            attended = attended + ops.cast(weights, attended.dtype)
        else:
            output, state = call_cell(self.rnn.cell, word, cache["state"], False)
        return word, output, {"state": state, "alignment_sum": attended}


def average_heads(weights: Tensor, rank: int) -> Tensor:
    """Weights of a rank without heads; of one more, the average of the heads."""
    return ops.mean(weights, axis=1) if len(weights.shape) > rank else weights


def check_cell(cell: Any) -> None:
    """Raises a ValueError for the name of no cell."""
    if cell not in CELLS:
        raise ValueError(
            f"`cell` must be one of {sorted(CELLS)}. Received: cell={cell!r}"
        )


def word_embedding(
    size: int, width: int, name: str, dtype: Any
) -> keras.layers.Embedding:
    """From tokens to vectors whose squares sum to about 1."""
    initializer = keras.initializers.RandomNormal(stddev=width**-0.5)
    return keras.layers.Embedding(
        size, width, embeddings_initializer=initializer, dtype=dtype, name=name
    )


def attention_rnn(
    attention: Any, cell: str, units: int, dtype: Any, known: tuple, order: str
) -> AttentionRNN:
    """The decoder of a model.

    Args:
        attention: one of `known`, or any attention layer, which is used as it is.
        cell: "gru" or "lstm".
        units: U.
        dtype: of what is made here.
        known: the names that the model takes; the last may be None.
        order: "before" or "after", where `attention` does not say it.

    Raises:
        ValueError: if it is neither a known name nor an attention layer, or learns by
            the weights that it returns.
    """
    if isinstance(attention, str) and attention not in known:
        names = ", ".join(repr(name) for name in known)
        raise ValueError(
            f"`attention` must be {names} or an attention layer. "
            f"Received: attention={attention!r}"
        )
    options: dict[str, Any] = {}
    if attention == "bahdanau":
        layer = BahdanauAttention(units, dtype=dtype, name="attention")
    elif attention == "luong":
        layer = LuongAttention("general", dtype=dtype, name="attention")
        order, options = "after", {"attention_units": units, "input_feeding": True}
    else:
        layer = attention
        check_learns_by_output(layer)
    return AttentionRNN(
        CELLS[cell](units, dtype=dtype, name="cell"),
        layer,
        order,
        return_sequences=True,
        dtype=dtype,
        name="decoder",
        **options,
    )


def check_learns_by_output(attention: Any) -> None:
    """Raises a ValueError for an attention that learns by the weights it returns.

    For models that do not use them.
    """
    if as_attention(attention, "attention").learns_by_weights:
        raise ValueError(
            f"`attention` must learn by its output: layer {attention.name!r} learns "
            "by the weights that it returns, which must reach a `CarryChoices`. Here "
            "they do not, so that it would never learn. Received: "
            f"attention={attention!r}"
        )
