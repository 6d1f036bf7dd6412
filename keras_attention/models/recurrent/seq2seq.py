"""A recurrent sequence-to-sequence model, with or without attention.

Shapes: B batch, S words of a source, T words of a target, D width of an embedding, U
units of a cell, V target vocabulary, X extra ids of a source.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers.base.adapter import as_attention
from keras_attention.layers.base.arguments import fraction, positive
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
    average_heads,
    check_cell,
    word_embedding,
)
from keras_attention.ops.copying import pointer_generator

Tensor = Any
EXTRA_IDS = 16  # of `copy=True`, and of `Vocabulary.extended`
UNKNOWN = 1  # the id of the unknown word, as in `text.Vocabulary`


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

    With `copy`, the decoder generates a word or copies it from the source:

        p(w) = g softmax(W_o [sₜ; cₜ])_w + (1 − g) Σ_{i: source i = w} αₜᵢ
        g    = σ(w · [sₜ; cₜ; E yₜ₋₁] + b)

    In a source, its target and its labels, the ids V, V + 1, … stand for the words of
    the source that the vocabulary lacks (`keras_attention.text.Vocabulary.extended`).
    Encoder and decoder read these ids as the unknown word, id 1.

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
        copy: X, the number of extra ids, which is the maximum number of different
            unknown words of a source; True for 16; False for a decoder that does not
            copy. Source and target must share one vocabulary, and the attention layer
            must return its weights. Weights of several heads are averaged.

    Inputs: a dict of
        source: int32 (B, S), 0 for padding at the end.
        target: int32 (B, T), beginning with the start token.

    Returns:
        Logits (B, T, V). With `copy`, log p (B, T, V + X), which are logits, too.

    Masking:
        The model never reads the padding of the source; the amount of padding has no
        effect. The logits at a position do not depend on later tokens of the target.

    Raises:
        ValueError: for sizes below 1; an unknown cell or attention; an attention layer
            that learns only through the weights that it returns
            (`HardAttention(estimator="reinforce")`); a dropout outside [0, 1); a
            sampling probability outside [0, 1], or above 0 without attention or with
            `copy`; or `copy` with two vocabularies or without attention weights. Calls
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
        networks" (2015); copying: See et al., "Get to the point: summarization with
        pointer-generator networks" (2017), section 2.2.
    """

    id_sizes: ClassVar[dict[str, str]] = {
        "source": "_source_ids",
        "target": "_target_ids",
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
        copy: bool | int = False,
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
        if copy:
            positive("copy", EXTRA_IDS if copy is True else copy)
            if source_vocabulary_size != target_vocabulary_size:
                raise ValueError(
                    "`copy` needs one vocabulary for source and target, so that a word "
                    "has the same id in both. Received: "
                    f"source_vocabulary_size={source_vocabulary_size}, "
                    f"target_vocabulary_size={target_vocabulary_size}"
                )
            if attention is None or sampling_probability:
                raise ValueError(
                    "`copy` needs an attention layer and `sampling_probability=0`. "
                    f"Received: copy={copy}, attention={attention!r}, "
                    f"sampling_probability={sampling_probability}"
                )

        source = keras.Input((None,), dtype="int32", name="source")  # (B, S)
        target = keras.Input((None,), dtype="int32", name="target")  # (B, T)
        parts = _Parts()
        parts.extra_ids = EXTRA_IDS if copy is True else int(copy)
        parts.size = source_vocabulary_size
        parts.source_embedding = word_embedding(
            source_vocabulary_size, embedding_dim, "source_embedding", dtype
        )
        parts.target_embedding = word_embedding(
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
            attended = as_attention(rnn.attention)
            if copy and not (attended.returns_weights and attended.gives_shares):
                raise ValueError(
                    "`copy` needs an attention layer that returns its weights, none of "
                    "them negative and with a sum of at most 1. "
                    f"Received: copy={copy}, attention={attention!r}"
                )
        else:
            rnn = LOOPS[cell](units, return_sequences=True, dtype=dtype, name="decoder")
        parts.decoder = TokenDecoder(parts.embed_target, rnn, attends)
        parts.logits = dense(target_vocabulary_size, None, "logits")
        if copy:
            parts.gate = dense(1, None, "generation_gate")
        parts.dropout = keras.layers.Dropout(dropout, dtype=dtype, name="dropout")

        memory, state, is_valid = parts.encode(source)
        options = {"initial_state": state, "memory_mask": is_valid}
        if sampling_probability:
            scheduled = ScheduledSampling(
                rnn,
                parts.target_embedding,
                parts.logits,
                sampling_probability,
                dropout=dropout,
                dtype=dtype,
                name="scheduled_sampling",
            )
            logits = scheduled(target, memory, **options)
        else:
            words, weights = parts.dropout(parts.embed_target(target)), None
            if copy:
                options["return_attention_scores"] = True
                outputs, weights = rnn(words, memory, **options)
            elif attends:
                outputs = rnn(words, memory, **options)
            else:
                outputs = rnn(words, initial_state=state)
            outputs = parts.dropout(outputs)
            logits = parts.logits_of(outputs, words, weights, source)  # (B, T, V + X)

        super().__init__({"source": source, "target": target}, logits, locals())
        self._parts = parts

    @property
    def extra_ids(self) -> int:
        """X, the number of ids for words of a source that the vocabulary lacks."""
        return self._parts.extra_ids

    @property
    def _target_ids(self) -> Any:
        return self.target_vocabulary_size + self.extra_ids

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
        cache, prepared = self._parts.decoder.begin(memory, state, is_valid, padding)
        return cache, (prepared, source)

    def next(
        self, prompt: Tensor, cache: dict[str, Any], index: Any, static: Any
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        parts, (prepared, source) = self._parts, static
        word, hidden, weights, cache = parts.decoder.step(
            prompt, cache, index, prepared
        )
        return parts.logits_of(hidden, word, weights, source), hidden, cache


class _Parts(SimpleNamespace):
    """The layers of a `Seq2Seq`, shared by its graph and its generation."""

    def encode(self, source: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
        """Returns h (B, S, ·), the decoder's first state, and the mask (B, S)."""
        is_valid = ops.not_equal(source, 0)
        words = self.dropout(self.source_embedding(self.known(source)))  # (B, S, D)
        memory, *states = self.encoder(words, mask=is_valid)
        bridged = []
        for n, dense in enumerate(self.bridge):
            both = states[n :: len(self.bridge)]  # forward and backward
            both = ops.concatenate(both, axis=-1) if len(both) > 1 else both[0]
            bridged.append(dense(both))  # (B, U)
        return memory, bridged, is_valid

    def embed_target(self, target: Tensor) -> Tensor:
        return self.target_embedding(self.known(target))

    def known(self, ids: Tensor) -> Tensor:
        """Returns ids of the vocabulary: extra ids become that of the unknown word."""
        if not self.extra_ids:
            return ids
        return ops.where(ids < self.size, ids, ops.cast(UNKNOWN, ids.dtype))

    def logits_of(
        self, outputs: Tensor, words: Tensor, weights: Tensor | None, source: Any
    ) -> Tensor:
        """Returns the logits of the decoder's outputs (B, T, ·); with extra ids, log p.

        The decoder has read `words`, (B, T, D), and attended to the source, ids (B, S),
        with `weights`, (B, T, S) or (B, H, T, S). For one step, there is no T axis.
        """
        logits = self.logits(outputs)
        if not self.extra_ids:
            return logits
        gate = self.gate(ops.concatenate([outputs, words], axis=-1))  # (B, T, 1)
        weights = average_heads(weights, len(outputs.shape))
        log_p = pointer_generator(logits, gate, weights, source, self.extra_ids)
        return ops.cast(log_p, logits.dtype)
