"""A recurrent sequence-to-sequence model, with or without attention.

Shapes: B batch, S words of a source, T words of a target, D width of an embedding, U
units of a cell, V target vocabulary.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.arguments import fraction
from keras_attention.layers.base.keep_mask import pass_masks
from keras_attention.layers.base.serialization import export
from keras_attention.layers.recurrent.scheduled_sampling import ScheduledSampling
from keras_attention.models.base.configured_model import ConfiguredModel, check_sizes
from keras_attention.models.base.generation import GeneratesTargets
from keras_attention.models.base.strings import Translates
from keras_attention.models.recurrent.token_decoder import (
    LOOPS,
    TokenDecoder,
    attention_rnn,
    check_cell,
    word_embedding,
)

Tensor = Any


@export
class Seq2Seq(Translates, GeneratesTargets, ConfiguredModel):
    """An encoder that reads a sequence and a decoder that generates another sequence.

        h   = encoder(source)                    a GRU or LSTM, in both directions
        s₀  = tanh(W_b [h⃗_S; h⃖₁])               the bridge (for an LSTM also its c)
        sₜ, cₜ = AttentionRNN(yₜ₋₁, sₜ₋₁; h)
        p(yₜ | y₁ … yₜ₋₁) = softmax(W_o [sₜ; cₜ])

    Train the model with teacher forcing: `target` begins with the start token. The
    labels are the same sequence without the start token, padded with 0. The loss
    `SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)` ignores padding.
    With scheduled sampling, the decoder sometimes reads its own prediction instead of
    the target's token during training.

    Args:
        source_vocabulary_size: the number of source tokens, including padding 0.
        target_vocabulary_size: V, the number of target tokens, including padding 0.
        embedding_dim: D, the width of the embeddings.
        units: U, the units of the encoder in each direction, of the decoder and of the
            attention.
        cell: "gru" or "lstm".
        attention: "bahdanau" (additive, before the cell); "luong" ("general", after the
            cell, with input feeding); an attention layer (before the cell), which may
            be a layer of this package, of Keras, or a layer that is called like Keras'
            attention layers; or None for a decoder that only receives s₀.
        bidirectional: whether the encoder reads in both directions.
        dropout: the dropout rate of the inputs of encoder and decoder, and of the
            decoder's outputs.
        sampling_probability: the probability, during training, that the decoder reads a
            token that it sampled itself. A value above 0 requires an attention layer.
            The value is the initial probability of `ScheduledSampling`;
            `keras_attention.callbacks.ScheduledSamplingDecay` can change this
            probability during training.

    Inputs: a dict of
        source: int32 (B, S), 0 for padding at the end.
        target: int32 (B, T), beginning with the start token.

    Returns:
        Logits (B, T, V).

    Masking:
        The model never reads the padding of the source; the amount of padding has no
        effect. The logits at a position do not depend on later tokens of the target.

    Raises:
        ValueError: for sizes below 1; an unknown cell or attention; an attention layer
            that learns only through the weights that it returns
            (`HardAttention(estimator="reinforce")`); a dropout outside [0, 1); or a
            sampling probability outside [0, 1], or above 0 without attention. Calls
            also raise it for ids in NumPy arrays that are below 0 or not below the
            number of ids.

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

    id_sizes: ClassVar[dict[str, str]] = {
        "source": "source_vocabulary_size",
        "target": "target_vocabulary_size",
    }

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
        parts.source_embedding = word_embedding(
            source_vocabulary_size, embedding_dim, "source_embedding", dtype
        )
        target_embedding = word_embedding(
            target_vocabulary_size, embedding_dim, "target_embedding", dtype
        )

        def dense(width: int, activation: Any, name: str) -> Any:
            return keras.layers.Dense(width, activation, dtype=dtype, name=name)

        loop = LOOPS[cell](
            units, return_sequences=True, return_state=True, dtype=dtype, name="loop"
        )
        parts.encoder = loop
        if bidirectional:
            parts.encoder = keras.layers.Bidirectional(
                loop, dtype=dtype, name="encoder"
            )
        pass_masks(parts.encoder)
        parts.bridge = [dense(units, "tanh", "bridge")]
        if cell == "lstm":
            parts.bridge.append(dense(units, None, "bridge_cell"))
        attends = attention is not None
        if attends:
            known = ("bahdanau", "luong", None)
            rnn = attention_rnn(attention, cell, units, dtype, known, "before")
        else:
            rnn = LOOPS[cell](units, return_sequences=True, dtype=dtype, name="decoder")
        parts.decoder = TokenDecoder(target_embedding, rnn, attends)
        parts.logits = dense(target_vocabulary_size, None, "logits")
        parts.dropout = keras.layers.Dropout(dropout, dtype=dtype, name="dropout")

        memory, state, is_valid = parts.encode(source)
        options = {"initial_state": state, "memory_mask": is_valid}
        if sampling_probability:
            scheduled = ScheduledSampling(
                rnn,
                target_embedding,
                parts.logits,
                sampling_probability,
                dropout=dropout,
                dtype=dtype,
                name="scheduled_sampling",
            )
            logits = scheduled(target, memory, **options)
        else:
            words = parts.dropout(target_embedding(target))  # (B, T, D)
            if attends:
                outputs = rnn(words, memory, **options)
            else:
                outputs = rnn(words, initial_state=state)
            logits = parts.logits(parts.dropout(outputs))  # (B, T, V)

        super().__init__({"source": source, "target": target}, logits, locals())
        self._parts = parts

    def begin(self, inputs: dict[str, Tensor]) -> tuple[dict[str, Any], Any]:
        """Encodes the source before the first call of `next`.

        Args:
            inputs: {"source": (B, S)}.

        Returns:
            The cache that `next` updates, and the read-only inputs of `next`. The
            "alignment_sum" (B, S) of the cache is the total attention to each word, for
            the coverage penalty of a beam search.
        """
        source = ops.cast(inputs["source"], "int32")
        memory, state, is_valid = self._parts.encode(source)
        padding = ops.cast(ops.logical_not(is_valid), "float32")  # counts as covered
        return self._parts.decoder.begin(memory, state, is_valid, padding)

    def next(
        self, prompt: Tensor, cache: dict[str, Any], index: Any, static: Any
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        _, hidden, cache = self._parts.decoder.step(prompt, cache, index, static)
        return self._parts.logits(hidden), hidden, cache


class _Parts(SimpleNamespace):
    """The layers of a `Seq2Seq`, shared by its graph and its generation."""

    def encode(self, source: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
        """Returns h (B, S, ·), the decoder's first state, and the mask (B, S)."""
        is_valid = ops.not_equal(source, 0)
        words = self.dropout(self.source_embedding(source))  # (B, S, D)
        memory, *states = self.encoder(words, mask=is_valid)
        bridged = []
        for n, dense in enumerate(self.bridge):
            both = states[n :: len(self.bridge)]  # forward and backward
            both = ops.concatenate(both, axis=-1) if len(both) > 1 else both[0]
            bridged.append(dense(both))  # (B, U)
        return memory, bridged, is_valid
