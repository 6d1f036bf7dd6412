"""The parts of a memory network: sentences as vectors, their age, and the hop.

Shapes: B batch, M memory slots, L words, D width.
"""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from keras_attention.layers.arguments import (
    positive,
    resolve_normalizer,
    serialize_normalizer,
)
from keras_attention.layers.base import AttentionLayer, Prepared, check_hop
from keras_attention.layers.export import export
from keras_attention.ops import attend, masks, normalizers, positions

Tensor = Any

ENCODINGS = ("bag", *positions.ENCODINGS)


@export
class SentenceEncoder(keras.layers.Layer):
    """A sentence as the sum of its words' embeddings, plain or position-weighted.

        bag       m = Σⱼ A xⱼ
        position  m = Σⱼ lⱼ ∘ A xⱼ,  l_kj = (1 − j/J) − (k/d)(1 − 2j/J)
        centered_position            l_kj = 1 + 4(k − (d + 1)/2)(j − (J + 1)/2)/(dJ)

    Token 0 is padding and counts for nothing.

    Args:
        vocabulary_size: V, the number of different tokens, padding included.
        embedding_dim: d, the width of an embedding.
        encoding: "bag", "position" as in the paper, or "centered_position" as in its
            authors' code, about twice as high.
        sentence_length: J of the position encoding: a number for all sentences, or
            None for each sentence's own number of words, as in the paper.
        embeddings_initializer: of A; by default normal with deviation 0.1.

    Call arguments:
        inputs: integers (..., L), or with `reverse=True` vectors (..., d).
        reverse: whether to score every word of the vocabulary against a vector, Aᵀu,
            instead of encoding words.

    Returns:
        (..., d); with `reverse=True` (..., V).

    Masking:
        Sentences (B, M, L) give a mask (B, M), False where a sentence has no word.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import SentenceEncoder
    >>> story = np.array([[[1, 2, 3], [4, 0, 0], [0, 0, 0]]])
    >>> tuple(SentenceEncoder(vocabulary_size=5, embedding_dim=2)(story).shape)
    (1, 3, 2)

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        encoding: str = "position",
        sentence_length: int | None = None,
        embeddings_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if encoding not in ENCODINGS:
            raise ValueError(
                f"`encoding` must be one of {list(ENCODINGS)}. "
                f"Received: encoding={encoding!r}"
            )
        self.vocabulary_size = positive("vocabulary_size", vocabulary_size)
        self.embedding_dim = positive("embedding_dim", embedding_dim)
        self.encoding = encoding
        if sentence_length is not None:
            positive("sentence_length", sentence_length)
        self.sentence_length = sentence_length
        self.embedding = keras.layers.ReversibleEmbedding(
            vocabulary_size,
            embedding_dim,
            embeddings_initializer=embeddings_initializer or normal(),
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.embeddings_initializer = self.embedding.embeddings_initializer
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        self.embedding.build(input_shape)
        self.built = True

    def call(
        self, inputs: Tensor, reverse: bool = False, training: bool | None = None
    ) -> Tensor:
        if reverse:
            # Keras multiplies by the table in its own dtype, not the compute dtype.
            logits = self.embedding(inputs, reverse=True)
            return ops.cast(logits, self.compute_dtype)  # (..., V)
        if training and self._counts_pay:
            table = ops.cast(self.embedding.embeddings, self.compute_dtype)
            word, words = self._places(masks.padding(inputs))
            return positions.position_weighted_sum(
                word, words, inputs, table, self.encoding
            )
        words = self.embedding(inputs)  # (..., L, D)
        there = masks.padding(inputs)  # (..., L)
        weights = ops.cast(there, words.dtype)[..., None]
        if self.encoding != "bag":
            l_kj = positions.sentence_position(
                *self._places(there), words.shape[-1], self.encoding
            )
            weights = weights * ops.cast(l_kj, words.dtype)
        return ops.sum(weights * words, axis=-2)  # (..., D)

    def compute_output_spec(
        self, inputs: Tensor, reverse: bool = False, training: bool | None = None
    ) -> keras.KerasTensor:
        width = self.vocabulary_size if reverse else self.embedding_dim
        return keras.KerasTensor((*inputs.shape[:-1], width), self.compute_dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        if len(inputs.shape) != 3 or not keras.backend.is_int_dtype(inputs.dtype):
            return None
        return ops.any(masks.padding(inputs), axis=-1)  # (B, M)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "encoding": self.encoding,
            "sentence_length": self.sentence_length,
            "embeddings_initializer": keras.initializers.serialize(
                self.embeddings_initializer
            ),
        }

    @property
    def _counts_pay(self) -> bool:
        """Whether to train on counts of words; see docs/decisions.md."""
        return (
            self.encoding != "bag"
            and self.vocabulary_size <= 256
            and not self.embedding.quantization_mode
        )

    def _places(self, there: Tensor) -> tuple[Tensor, Tensor]:
        """The place j of each word, 0 where there is none, and their number J."""
        there = ops.cast(there, "int32")
        word = ops.cumsum(there, axis=-1) * there  # (..., L)
        if self.sentence_length is not None:
            return word, self.sentence_length
        words = ops.sum(there, axis=-1, keepdims=True)  # (..., 1)
        return word, ops.maximum(words, 1)


@export
class MemoryAge(keras.layers.Layer):
    """How far back each sentence of a story lies: 1 for the last, 0 for no sentence.

    An embedding of these numbers is the temporal encoding T_A(i) of a memory network.
    While training, `noise` slips random gaps between them, so that a network learns
    time as "before" and "after" rather than by heart.

    Args:
        memory_size: the greatest age; what is older counts as of this age.
        noise: how many empty memories are slipped in at most, as a part of the
            story's length; the paper takes 0.1.
        seed: of the noise.

    Call arguments:
        inputs: integers (B, M, L), sentences in reading order, token 0 is padding.
        training: whether there is noise.

    Returns:
        int32 (B, M).

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import MemoryAge
    >>> story = np.array([[[5, 2], [4, 0], [3, 1], [0, 0]]])
    >>> np.asarray(MemoryAge(memory_size=50)(story)).tolist()
    [[3, 2, 1, 0]]

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1.
    """

    def __init__(
        self,
        memory_size: int,
        noise: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if noise < 0:
            raise ValueError(f"`noise` must not be negative. Received: noise={noise}")
        self.memory_size = positive("memory_size", memory_size)
        self.noise = noise
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if noise else None
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        ages = positions.age(ops.any(masks.padding(inputs), axis=-1))  # (B, M)
        if self.noise and training:
            batch, slots = ops.shape(inputs)[:2]
            size = inputs.shape[1] if inputs.shape[1] is not None else slots
            places = 1 + size + self._most(size)
            draws = keras.random.uniform((batch, places), seed=self.seed_generator)
            ages = positions.gaps(ages, draws, self.noise)
        return ops.minimum(ages, self.memory_size)

    def compute_output_spec(
        self, inputs: Tensor, training: bool | None = None
    ) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape[:2], "int32")

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "memory_size": self.memory_size,
            "noise": self.noise,
            "seed": self.seed,
        }

    def _most(self, slots: Any) -> Any:
        if isinstance(slots, int):
            return math.ceil(self.noise * slots)
        return ops.cast(ops.ceil(self.noise * ops.cast(slots, "float32")), "int32")


@export
class MemoryHop(AttentionLayer):
    """One hop over a memory that has an input side and an output side.

        pᵢ = softmax(uᵀ mᵢ)         how much memory i matters to the state u
        o  = Σᵢ pᵢ cᵢ
        u′ = f(H u + o)

    The call is that of every attention layer: the query is the state u, the key is
    the input memory m and the value is the output memory c. The layer may be called
    several times, once a hop.

    Args:
        transform: whether the state is mapped by H; else H is the identity.
        activation: f, by name or as a function; None for none.
        normalizer: "softmax", or another as in `Attention`; with "softmax1" a hop may
            also look at nothing.
        slots: how many memories there are; those that are not filled are null: they
            score 0 and hold 0, as in the paper, so that a hop may look at nothing.
            Whatever may not be attended to counts as not filled, whichever mask
            hides it. Needs the softmax. None if there are none but the filled ones.
        linear_start: whether the hop begins without its normalizer, p = uᵀm. The
            non-trainable variable `linear` says which holds; set it to False, as the
            callback `LinearStart` does, to put the normalizer in.
        kernel_initializer: of H; by default normal with deviation 0.1.

    Call arguments:
        query: u, (B, D) or (B, T, D).
        value: c, (B, M, D).
        key: m, (B, M, D), by default the value.
        query_mask: booleans (B,) or (B, T).
        value_mask: booleans (B, M).
        key_mask: booleans (B, M).
        attention_mask: booleans (B, M) or (B, T, M).
        return_attention_scores: whether to return the weights p, too.
        training: not used; every attention layer has it.
        use_causal_mask: whether query t may see only memories 0 … t.

    Returns:
        u′, of the query's shape; with `return_attention_scores=True` also the weights
        (B, M) or (B, T, M).

    Masking:
        Boolean, True = may attend. Where nothing may be attended to, o is 0.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import MemoryHop
    >>> u, m = np.ones((2, 3), "float32"), np.ones((2, 5, 3), "float32")
    >>> c = np.zeros((2, 5, 3), "float32")
    >>> u, p = MemoryHop()(u, c, m, return_attention_scores=True)
    >>> tuple(u.shape), tuple(p.shape)
    ((2, 3), (2, 5))

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), equations 1, 2 and 4;
        section 2.2 for H; section 4.2 for linear start.
    """

    def __init__(
        self,
        transform: bool = False,
        activation: Any = None,
        normalizer: Any = "softmax",
        slots: int | None = None,
        linear_start: bool = False,
        kernel_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.transform = transform
        self.activation = keras.activations.get(activation)
        self.normalizer = resolve_normalizer(normalizer)
        if slots is not None:
            positive("slots", slots)
            if self.normalizer != "softmax":
                raise ValueError(
                    "`slots` needs normalizer='softmax', since a null memory is one "
                    f"whose score is 0 in it. Received: normalizer={normalizer!r}"
                )
        self.slots = slots
        self.linear_start = linear_start
        self.kernel_initializer = keras.initializers.get(kernel_initializer or normal())

    def build(
        self, query_shape: Any, value_shape: Any = None, key_shape: Any = None
    ) -> None:
        if self.transform:
            self.state_dense = keras.layers.Dense(
                query_shape[-1],
                use_bias=False,
                kernel_initializer=self.kernel_initializer,
                dtype=self.dtype_policy,
                name="state",
            )
            self.state_dense.build(query_shape)
        if self.linear_start:
            self.linear = self.add_weight(
                name="linear_start",
                shape=(),
                dtype="bool",
                initializer=lambda shape, dtype: ops.ones(shape, dtype),
                trainable=False,
            )
        self.built = True

    def check_widths(self, query: Tensor, value: Tensor, key: Tensor) -> None:
        check_hop(query, value, key)

    def look(
        self,
        query: Tensor,
        memory: Prepared,
        mask: Tensor | None,
        explicit: bool,
        drawn: Any = None,
    ) -> tuple[Tensor, Tensor | None]:
        # (1) p = softmax(uᵀ m), (2) o = Σ p c
        found, weights = attend(
            query, memory.key, memory.value, "dot", self._normalize, mask
        )  # (B, T, D), (B, T, M)
        # (4) u′ = f(H u + o), where H is the identity if there is no transform
        state = self.state_dense(query) if self.transform else query
        return self.activation(state + found), weights

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "transform": self.transform,
            "activation": keras.activations.serialize(self.activation),
            "normalizer": serialize_normalizer(self.normalizer),
            "slots": self.slots,
            "linear_start": self.linear_start,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }

    def _normalize(self, similar: Tensor, mask: Tensor | None) -> Tensor:
        if self.slots is None:
            weights = normalizers.get(self.normalizer)(similar, mask)
        else:
            weights = normalizers.null_softmax(similar, mask, slots=self.slots)
        if not self.linear_start:
            return weights
        linear = ops.convert_to_tensor(self.linear)
        return ops.where(linear, normalizers.linear(similar, mask), weights)


def normal() -> keras.initializers.Initializer:
    """The initializer of a memory network's weights: normal, deviation 0.1."""
    return keras.initializers.RandomNormal(stddev=0.1)
