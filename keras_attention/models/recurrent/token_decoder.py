"""The decoder shared by the models that generate tokens and attend to a memory.

Shapes: B batch, S keys, T tokens, H heads, D width of an embedding, U units of a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import keras
from keras import ops

from keras_attention.layers.attention import BahdanauAttention, LuongAttention
from keras_attention.layers.base.adapter import as_attention, check_learns_by_output
from keras_attention.layers.base.cells import call_cell
from keras_attention.layers.recurrent.attention_rnn import AttentionRNN
from keras_attention.ops.sequence import decoding

Tensor = Any
CELLS = {"gru": keras.layers.GRUCell, "lstm": keras.layers.LSTMCell}
LOOPS = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}


class TokenDecoder:
    """An embedding and a recurrent layer. Both layers belong to the model.

    `rnn` is an `AttentionRNN`; a recurrent layer of Keras if the decoder has no memory.
    """

    def __init__(self, embedding: Callable, rnn: Any, attends: bool = True) -> None:
        self.embedding = embedding
        self.rnn = rnn
        self.attends = attends

    def begin(
        self, memory: Tensor, state: list[Tensor], mask: Tensor, attended: Tensor
    ) -> tuple[dict[str, Any], Any]:
        """Returns the cache and the read-only inputs of the first call of `step`.

        The "alignment_sum" (B, S) of the cache, which begins with `attended`, is the
        total attention to each key, for the coverage penalty of a beam search. It is
        missing if the attention layer cannot return its weights, or if its weights can
        be negative.
        """
        if not self.attends:
            return {"state": state, "alignment_sum": attended}, ()
        prepared = self.rnn.prepare(memory, mask=mask)
        first = self.rnn.start(prepared, ops.shape(memory)[0], state)
        attention = self.rnn.protocol.attentions[0]
        if not (attention.returns_weights and attention.gives_shares):
            return {"state": first}, prepared
        return {"state": first, "alignment_sum": attended}, prepared

    def step(
        self, prompt: Tensor, cache: dict[str, Any], index: Any, static: Any
    ) -> tuple[Tensor, Tensor, Tensor | None, dict[str, Any]]:
        """Reads the token before `index`.

        Returns the embedding of the token (B, D), the output of the recurrent layer (B,
        ·), the weights (B, S), averaged over heads, if the attention layer can return
        its weights, and the cache.
        """
        word = self.embedding(decoding.read(prompt, index - 1))  # (B, D)
        attended, weights = cache.get("alignment_sum"), None
        if self.attends:
            state, step = self.rnn.step(
                word, cache["state"], static, return_weights=attended is not None
            )
            output = self.rnn.read_out(step)
            if attended is not None:
                weights = average_heads(step.weights[0], 2)
                attended = attended + ops.cast(weights, attended.dtype)
        else:
            output, state = call_cell(self.rnn.cell, word, cache["state"], False)
        now = {} if attended is None else {"alignment_sum": attended}
        return word, output, weights, {"state": state, **now}


def average_heads(weights: Tensor, rank: int) -> Tensor:
    """Averages weights over the heads if the weights have `rank` + 1 axes."""
    return ops.mean(weights, axis=1) if len(weights.shape) > rank else weights


def check_cell(cell: Any, known: Iterable[str] = CELLS) -> None:
    """Raises a ValueError if `cell` is not the name of a cell."""
    if cell not in known:
        raise ValueError(
            f"`cell` must be one of {sorted(known)}. Received: cell={cell!r}"
        )


def word_embedding(
    size: int, width: int, name: str, dtype: Any, is_reversible: bool = False
) -> Any:
    """Returns an embedding whose initial vectors have a squared norm of about 1."""
    options: dict[str, Any] = {
        "embeddings_initializer": keras.initializers.RandomNormal(stddev=width**-0.5),
        "dtype": dtype,
        "name": name,
    }
    if not is_reversible:
        return keras.layers.Embedding(size, width, **options)
    # Otherwise the logits would have the dtype of the weights.
    logits_dtype = keras.dtype_policies.get(dtype).compute_dtype
    return keras.layers.ReversibleEmbedding(
        size, width, reverse_dtype=logits_dtype, **options
    )


def attention_rnn(
    attention: Any,
    cell: str,
    units: int,
    dtype: Any,
    known: tuple,
    order: str,
    carries: bool = False,
) -> AttentionRNN:
    """Returns the decoder of a model.

    Args:
        attention: one of the `known` names, or any attention layer, which stays
            unchanged.
        cell: "gru" or "lstm".
        units: U, the units of the cell.
        dtype: the dtype policy of the layers created here.
        known: the names that the model accepts; the last may be None.
        order: "before" or "after", if `attention` does not determine it.
        carries: whether the model has a `CarryChoices`, for attention layers that learn
            only through the weights that they return.
    """
    if isinstance(attention, str) and attention not in known:
        names = ", ".join(repr(name) for name in known)
        raise ValueError(
            f"`attention` must be {names} or an attention layer. "
            f"Received: attention={attention!r}"
        )
    inner = CELLS[cell](units, dtype=dtype, name="cell")
    options: dict[str, Any] = {}
    if attention == "bahdanau":
        layer = BahdanauAttention(units, dtype=dtype, name="attention")
    elif attention == "luong":
        layer = LuongAttention("general", dtype=dtype, name="attention")
        order, options = "after", {"attention_units": units, "input_feeding": True}
    else:
        layer = attention
        protocol = as_attention(layer)
        if not carries:
            check_learns_by_output(protocol)
    return AttentionRNN(
        inner,
        layer,
        order,
        return_sequences=True,
        dtype=dtype,
        name="decoder",
        **options,
    )
