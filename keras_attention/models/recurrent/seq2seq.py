"""Recurrent sequence to sequence, with attention or without.

Shapes: B batch, S words of a source, T words of a target, D width of an embedding,
U units of a cell, V target vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import fraction
from keras_attention.layers.base.serialization import export
from keras_attention.layers.recurrent.scheduled_sampling import ScheduledSampling
from keras_attention.models.base.arguments import check_sizes
from keras_attention.models.base.configured_model import ConfiguredModel
from keras_attention.models.base.generation import Generator, named_input
from keras_attention.models.recurrent.token_decoder import (
    LOOPS,
    TokenDecoder,
    attention_rnn,
    check_cell,
    word_embedding,
)

Tensor = Any


@export
class Seq2Seq(ConfiguredModel):
    """An encoder that reads a sequence and a decoder that writes another.

        h   = encoder(source)                    a GRU or LSTM, in both directions
        s₀  = tanh(W_b [h⃗_S; h⃖₁])               the bridge (of an LSTM also its c)
        sₜ, cₜ = AttentionRNN(yₜ₋₁, sₜ₋₁; h)
        p(yₜ | y₁ … yₜ₋₁) = softmax(W_o [sₜ; cₜ])

    It is trained with teacher forcing: `target` begins with the start token, and labels
    are the same sequence from the next token on, 0 where there is none. A loss that
    leaves out padding is `SparseCategoricalCrossentropy(from_logits=True,
    ignore_class=0)`. With scheduled sampling the decoder reads, while training, now and
    then a token of its own in the place of the target's.

    Args:
        source_vocabulary_size: the number of source tokens, padding 0 included.
        target_vocabulary_size: V, the number of target tokens, padding 0 included.
        embedding_dim: D.
        units: U, of the encoder in each direction, of the decoder and of attention.
        cell: "gru" or "lstm".
        attention: "bahdanau" (before the cell, additive), "luong" (after the cell,
            "general", with input feeding), any attention layer (before the cell), of
            this package, of Keras, or with Keras' call, or None for a decoder that only
            has s₀.
        bidirectional: whether the encoder reads in both directions.
        dropout: of what encoder and decoder read, and of the decoder's outputs.
        sampling_probability: how often, while training, the decoder reads a token that
            it drew itself; needs an attention. Above 0 it is where the variable of
            `ScheduledSampling` starts, which
            `keras_attention.callbacks.ScheduledSamplingDecay` may change.

    Inputs: a dict of
        source: int32 (B, S), 0 is padding, at the end.
        target: int32 (B, T), beginning with the start token.

    Returns:
        Logits (B, T, V).

    Masking:
        Padding of the source is never read; more of it changes nothing. What stands
        behind a token of the target cannot change its logits.

    Raises:
        ValueError: for sizes below 1, an unknown cell or attention, an attention that
            learns by its weights alone (`HardAttention(estimator="reinforce")`), a
            dropout that is not at least 0 and below 1, or a sampling probability that
            is not from 0 to 1 or without attention above 0.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import Seq2Seq
    >>> model = Seq2Seq(11, 7, embedding_dim=3, units=5)
    >>> source = np.array([[4, 10, 2], [3, 0, 0]])
    >>> model.generate({"source": source}, max_length=6, start_token_id=2,
    ...                stop_token_ids=3).shape
    (2, 6)

    Reference:
        Bahdanau et al., "Neural machine translation by jointly learning to align and
        translate" (2015); Luong et al., "Effective approaches to attention-based neural
        machine translation" (2015); without attention: Sutskever et al., "Sequence to
        sequence learning with neural networks" (2014); scheduled sampling: Bengio et
        al., "Scheduled sampling for sequence prediction with recurrent neural
        networks" (2015).
    """

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        embedding_dim: int = 256,
        units: int = 256,
        cell: str = "gru",
        attention: Any = "bahdanau",
        bidirectional: bool = True,
        dropout: float = 0.0,
        sampling_probability: float = 0.0,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        check_sizes(
            source_vocabulary_size=source_vocabulary_size,
            target_vocabulary_size=target_vocabulary_size,
            embedding_dim=embedding_dim,
            units=units,
        )
        check_cell(cell)
        fraction("dropout", dropout)
        if sampling_probability and attention is None:
            raise ValueError(
                "`sampling_probability` needs a decoder with attention. Received: "
                f"sampling_probability={sampling_probability}, attention=None"
            )

        source = keras.Input((None,), dtype="int32", name="source")  # (B, S)
        target = keras.Input((None,), dtype="int32", name="target")  # (B, T)
        parts = _Parts()
        parts.source_embedding, target_embedding = (
            word_embedding(size, embedding_dim, name, dtype)
            for size, name in (
                (source_vocabulary_size, "source_embedding"),
                (target_vocabulary_size, "target_embedding"),
            )
        )
        loop = LOOPS[cell](
            units, return_sequences=True, return_state=True, dtype=dtype, name="loop"
        )
        parts.encoder = loop
        if bidirectional:
            parts.encoder = keras.layers.Bidirectional(
                loop, dtype=dtype, name="encoder"
            )
        parts.bridge = [
            keras.layers.Dense(
                units, "tanh" if n == 0 else None, dtype=dtype, name=name
            )
            for n, name in enumerate(("bridge", "bridge_cell")[: 1 + (cell == "lstm")])
        ]
        parts.decoder = TokenDecoder(
            target_embedding,
            _decoder(attention, cell, units, dtype),
            attention is not None,
        )
        parts.logits = keras.layers.Dense(
            target_vocabulary_size, dtype=dtype, name="logits"
        )
        parts.dropout = keras.layers.Dropout(dropout, dtype=dtype, name="dropout")

        memory, state, is_valid = parts.encode(source)
        if sampling_probability:
            scheduled = ScheduledSampling(
                parts.decoder.rnn,
                target_embedding,
                parts.logits,
                sampling_probability,
                dropout=dropout,
                dtype=dtype,
                name="scheduled_sampling",
            )
            given = {"initial_state": state, "memory_mask": is_valid}
            logits = scheduled(target, memory, **given)
        else:
            logits = parts.forced(target, memory, state, is_valid)  # (B, T, V)

        super().__init__({"source": source, "target": target}, logits, locals())
        self._parts = parts
        self._generator = Generator(self)

    def begin(self, inputs: dict[str, Tensor]) -> tuple[dict[str, Any], Any]:
        """Reads the source: what `next` needs at the first place.

        Args:
            inputs: {"source": (B, S)}.

        Returns:
            The cache that `next` changes, whose "alignment_sum" (B, S) tells a beam
            search how much each word has been attended to, and what it only reads.
        """
        source = ops.cast(inputs["source"], "int32")
        memory, state, is_valid = self._parts.encode(source)
        padding = ops.cast(ops.logical_not(is_valid), "float32")  # lacks no coverage
        return self._parts.decoder.begin(memory, state, is_valid, padding)

    def next(
        self, prompt: Tensor, cache: dict[str, Any], index: Any, static: Any
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Logits of the token at a place, from the one in front of it.

        KerasHub's protocol; see `keras_attention.samplers`.

        Args:
            prompt: (B, T).
            cache: what `begin` or the last call returned.
            index: the place, at least 1.
            static: what `begin` returned.

        Returns:
            Logits (B, V), the decoder's output (B, ·) and the cache.
        """
        _, hidden, cache = self._parts.decoder.step(prompt, cache, index, static)
        return self._parts.logits(hidden), hidden, cache

    def generate(
        self,
        inputs: Any,
        max_length: int = 64,
        sampler: Any = "greedy",
        start_token_id: int = 2,
        stop_token_ids: Any = 3,
        seed: int | None = None,
    ) -> np.ndarray:
        """Writes a target for each source.

        Compiled once for each batch size and bucket of lengths, see
        `keras_attention.ops.sequence.decoding.bucket`: other lengths in a bucket cost
        no compilation. KerasHub's samplers cannot stop at a length, and are compiled
        for each `max_length`.

        Args:
            inputs: {"source": (B, S)}, or the array alone, integers.
            max_length: how many tokens to write at most.
            sampler: "greedy", "beam", "random", "top_k", "top_p", or a sampler of
                `keras_attention.samplers` or of KerasHub.
            start_token_id: the token that stands in front of the first.
            stop_token_ids: the token, or tokens, that end a target; None for none.
            seed: of a sampler that leaves something to chance.

        Returns:
            int32 (B, max_length), without the start token, 0 behind a stop token.

        Raises:
            ValueError: for sources that are no integers (B, S), a `max_length` below 1,
                or tokens outside the vocabulary.
        """
        return self._generator(
            {"source": named_input("source", inputs)},
            max_length,
            sampler,
            start_token_id,
            stop_token_ids,
            seed,
        )


class _Parts:
    """The layers of a `Seq2Seq`, which its graph and its decoding share."""

    source_embedding: Any
    encoder: Any
    bridge: list
    decoder: TokenDecoder
    logits: Any
    dropout: Any

    def encode(self, source: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
        """h (B, S, ·), the decoder's first state and which words there are (B, S)."""
        is_valid = ops.not_equal(source, 0)
        words = self.dropout(self.source_embedding(source))  # (B, S, D)
        memory, *states = self.encoder(words, mask=is_valid)
        bridged = []
        for n, dense in enumerate(self.bridge):
            both = states[n :: len(self.bridge)]  # forwards and backwards
            both = ops.concatenate(both, axis=-1) if len(both) > 1 else both[0]
            bridged.append(dense(both))  # (B, U)
        return memory, bridged, is_valid

    def forced(
        self, target: Tensor, memory: Tensor, state: list[Tensor], mask: Tensor
    ) -> Tensor:
        """Logits (B, T, V) with teacher forcing."""
        decoder = self.decoder
        words = self.dropout(decoder.embedding(target))  # (B, T, D)
        if decoder.attends:
            given = {"initial_state": state, "memory_mask": mask}
            outputs = decoder.rnn(words, memory, **given)
        else:
            outputs = decoder.rnn(words, initial_state=state)
        return self.logits(self.dropout(outputs))


def _decoder(attention: Any, cell: str, units: int, dtype: Any) -> Any:
    if attention is None:
        return LOOPS[cell](units, return_sequences=True, dtype=dtype, name="decoder")
    known = ("bahdanau", "luong", None)
    return attention_rnn(attention, cell, units, dtype, known, "before")
