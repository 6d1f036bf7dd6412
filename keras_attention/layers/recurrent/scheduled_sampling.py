"""Scheduled sampling: a decoder that also learns from its own predictions.

Shapes: B batch, T words of a target, S keys, D width of an embedding, V words of the
vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attention.layers.base import sampling
from keras_attention.layers.base.arguments import check_shape, fraction, number, one_of
from keras_attention.layers.base.cells import sequence_dropout, time_swapped, width_of
from keras_attention.layers.base.checked import check_ids
from keras_attention.layers.base.recording import is_recording
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.layers.recurrent.attention_rnn import AttentionRNN
from keras_attention.numerics import normalizers
from keras_attention.ops.sequence import decoding, loop

Tensor = Any


@export
class ScheduledSampling(Configured, keras.layers.Layer):
    """A decoder that reads the target word or, with probability ε, its own prediction.

        xₜ     = E[yₜ₋₁], or with probability ε, in training, E[ŷₜ₋₁]
        logits = W hₜ,    hₜ = decoder(xₜ, hₜ₋₁)
        ŷₜ     ~ softmax(logits), or its arg max

    With teacher forcing only, a decoder never sees its own mistakes during training. ε
    usually starts at 0 and grows; see
    `keras_attention.callbacks.ScheduledSamplingDecay`. ε is stored in a variable named
    "sampling_probability". The variable can change between the steps of a compiled
    `fit`, and it is saved with the layer. No gradient flows through the choice of a
    word. Outside training, the decoder reads only words of the target, and only the
    decoder itself runs in a loop.

    Args:
        decoder: an `AttentionRNN` that returns sequences and no state.
        embedding: a layer that maps words to vectors, such as `keras.layers.Embedding`,
            without `mask_zero`: padding after a target has no effect.
        logits: a layer that maps the decoder's output to logits, such as
            `keras.layers.Dense(V)`.
        sampling_probability: the initial ε, from 0 to 1.
        choice: "sample" or "argmax", how the layer chooses ŷ.
        dropout: the fraction of the decoder's inputs and outputs dropped during
            training.
        seed: the random seed of this layer.

    Call arguments:
        target: integers (B, T), beginning with the start token.
        memory: (B, S, ·), as in `AttentionRNN`; or a list.
        key: (B, S, ·), defaults to the memory.
        initial_state: the states of the cell.
        memory_mask: booleans (B, S), or a list.
        training: whether to use scheduled sampling and dropout.

    Returns:
        Logits (B, T, V).

    Masking:
        Only the memory has a mask. It is boolean, True = may attend.

    Raises:
        ValueError: for a decoder that is not an `AttentionRNN` or does not return only
            sequences, an embedding with a mask, a probability or dropout out of range,
            or an unknown choice.

    Example:

    >>> import keras, numpy as np
    >>> from keras_attention.layers import (
    ...     AttentionRNN, BahdanauAttention, ScheduledSampling)
    >>> decoder = AttentionRNN(
    ...     keras.layers.GRUCell(6), BahdanauAttention(8), return_sequences=True)
    >>> layer = ScheduledSampling(
    ...     decoder, keras.layers.Embedding(11, 4), keras.layers.Dense(11), 0.25)
    >>> target, memory = np.ones((2, 3), "int32"), np.ones((2, 7, 5), "float32")
    >>> tuple(layer(target, memory, training=True).shape)
    (2, 3, 11)

    Reference:
        Bengio, Vinyals, Jaitly & Shazeer, "Scheduled sampling for sequence prediction
        with recurrent neural networks" (2015), section 2.4.
    """

    def __init__(
        self,
        decoder: Any,
        embedding: Any,
        logits: Any,
        sampling_probability: float = 0.0,
        choice: str = "sample",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True  # for the mask of the memory
        check_decoder(decoder)
        if getattr(embedding, "mask_zero", False):
            raise ValueError(
                "`embedding` must not have mask_zero=True: a target is padded at its "
                "end, where the labels are left out of the loss. Received: "
                f"embedding={embedding!r}"
            )
        if not 0 <= number("sampling_probability", sampling_probability) <= 1:
            raise ValueError(
                "`sampling_probability` must be from 0 to 1. "
                f"Received: sampling_probability={sampling_probability}"
            )
        self.decoder = decoder
        self.embedding = embedding
        self.logits = logits
        self.sampling_probability = sampling_probability
        self.choice = one_of("choice", choice, ("sample", "argmax"))
        self.dropout = fraction("dropout", dropout)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(
        self, target_shape: Any, memory_shape: Any, key_shape: Any = None
    ) -> None:
        if not self.embedding.built:
            self.embedding.build(target_shape)
        words = self.embedding.compute_output_shape(target_shape)  # (B, T, D)
        if not self.decoder.built:
            self.decoder.build(words, memory_shape, key_shape)
        if not self.logits.built:
            self.logits.build((*target_shape, output_width(self.decoder)))
        self.probability = self.add_weight(
            name="sampling_probability",
            shape=(),
            initializer=keras.initializers.Constant(self.sampling_probability),
            trainable=False,
            autocast=False,
        )
        self.built = True

    def call(
        self,
        target: Tensor,
        memory: Any,
        key: Any = None,
        initial_state: Any = None,
        memory_mask: Any = None,
        training: bool | None = None,
    ) -> Tensor:
        words = getattr(self.embedding, "input_dim", None)
        if words is not None:
            check_ids("target", target, words)
        if not training:
            outputs = self.decoder(
                self.embedding(target),
                memory,
                key=key,
                initial_state=initial_state,
                memory_mask=memory_mask,
                training=False,
            )
            return self.logits(outputs)  # (B, T, V)
        batch, steps = ops.shape(target)[:2]
        prepared = self.decoder.prepare(memory, key, memory_mask)
        state = self.decoder.start(prepared, batch, initial_state)
        samples = self._sample(target, (batch, steps), prepared)
        width = self.decoder.input_width
        with sequence_dropout(self.decoder.cell, width, state.cell):
            _, (logits, weights) = loop.scan(
                lambda state, now: self._step(state, now, prepared),
                (state, target[:, 0]),
                time_swapped({"word": target, **samples}),
            )
        if is_recording():  # (T, B, S) to (B, T, S), (T, B, H, S) to (B, H, T, S)
            weights = tuple([ops.moveaxis(alpha, 0, -2) for alpha in weights])
            self.decoder.record_weights(weights)
        return time_swapped(logits)  # (B, T, V)

    def compute_output_spec(self, target: Tensor, memory: Any, **arguments: Any) -> Any:
        check_shape("target", target.shape, "(batch, words)")
        shape = (*target.shape, output_width(self.decoder))
        shape = self.logits.compute_output_shape(shape)
        return keras.KerasTensor(shape, self.logits.compute_dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None

    def _sample(
        self, target: Tensor, shape: tuple[Any, Any], prepared: tuple
    ) -> dict[str, Any]:
        """Samples the random numbers of all steps: a dict of tensors (B, T, ...)."""

        def uniforms() -> Tensor:
            return sampling.uniform(shape, self.seed_generator)

        def dropout_mask(width: int) -> Tensor:
            generator = self.seed_generator, self.seed
            return sampling.dropout_mask(
                (*shape, width), self.dropout, self.compute_dtype, *generator
            )

        replaced = uniforms() < ops.cast(self.probability, "float32")
        # The first word, the start token, is never replaced.
        replaced = ops.logical_and(replaced, ops.arange(shape[1]) > 0)  # (B, T)
        samples = {"replaced": replaced}
        attention = self.decoder.sample(prepared, shape, True)
        if attention is not None:
            samples["attention"] = attention
        if self.choice == "sample":
            samples["uniform"] = uniforms()
        if self.dropout:
            width = self.embedding.compute_output_shape(target.shape)[-1]
            samples["read"] = dropout_mask(width)
            samples["written"] = dropout_mask(output_width(self.decoder))
        return samples

    def _step(
        self, carried: tuple[Any, Tensor], now: dict[str, Any], prepared: tuple
    ) -> tuple[Any, tuple[Tensor, tuple]]:
        state, written = carried
        word = ops.where(now["replaced"], written, now["word"])  # (B,)
        read = ops.cast(self.embedding(word), self.compute_dtype)  # (B, D)
        read = read * now["read"] if self.dropout else read
        random = now.get("attention")
        state, output = self.decoder.step(
            read, state, prepared, random, True, is_recording()
        )
        hidden = self.decoder.read_out(output)
        hidden = hidden * now["written"] if self.dropout else hidden
        logits = self.logits(hidden)  # (B, V)
        if self.choice == "sample":
            chances = normalizers.softmax(ops.cast(logits, "float32"))
            written = decoding.draw(ops.stop_gradient(chances), now["uniform"])
        else:
            written = ops.argmax(logits, axis=-1)
        return (state, ops.cast(written, word.dtype)), (logits, output.weights)


def check_decoder(decoder: Any) -> None:
    """Raises a ValueError unless `decoder` is an `AttentionRNN` that fits."""
    if not isinstance(decoder, AttentionRNN):
        raise ValueError(
            f"`decoder` must be an `AttentionRNN`. Received: decoder={decoder!r}"
        )
    if not decoder.return_sequences or decoder.return_state:
        raise ValueError(
            "`decoder` must have return_sequences=True and return_state=False. "
            f"Received: return_sequences={decoder.return_sequences}, "
            f"return_state={decoder.return_state}"
        )


def output_width(decoder: Any) -> int:
    """Returns the width of the outputs of a built decoder."""
    return decoder.attention_units or decoder.context_width + width_of(decoder.cell)
