"""End-to-end memory networks."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention.layers import MemoryAge, MemoryHop, SentenceEncoder
from keras_attention.layers.base.arguments import one_of
from keras_attention.layers.base.serialization import export
from keras_attention.layers.memory_networks.sentence_encoder import normal
from keras_attention.models.base.configured_model import ConfiguredModel, check_sizes
from keras_attention.models.base.strings import AnswersQuestions
from keras_attention.numerics import masks

Tensor = Any

TYINGS = ("adjacent", "layer_wise")
TIMES = ("table", "word")


@export
class MemN2N(AnswersQuestions, ConfiguredModel):
    """Answers a question about a story by several hops over its sentences.

        mᵢ = Σⱼ lⱼ ∘ A xᵢⱼ + T_A(i)    input memory of sentence i with words xᵢⱼ
        cᵢ = Σⱼ lⱼ ∘ C xᵢⱼ + T_C(i)    output memory
        u  = Σⱼ lⱼ ∘ B qⱼ              the question
        p  = softmax(uᵀ mᵢ),  o = Σᵢ pᵢ cᵢ,  u ← u + o      per hop
        answer = softmax(W u)

    With `tying="adjacent"`, the output memory of a hop is the input memory of the next
    hop, B equals the first A, and W is the transposed last C. With
    `tying="layer_wise"`, all hops share A and C, and u ← H u + o.

    A network can answer about words that it was never trained on if the last ids of the
    vocabulary are kept for them. They stand for other words in each story. In training,
    `datasets.babi.WordDropout` gives them to known words, other ones in each step, so
    that the network learns to compare and to copy them.

    A memory has `memory_size` slots. Empty slots are null memories with score 0 and
    value 0, so a hop may attend to no sentence.

    Args:
        vocabulary_size: V, the number of different words, padding (0) included.
        embedding_dim: d, the width of the memory.
        hops: K, the number of reads of the memory.
        memory_size: the number of slots, which is also the maximum age that is encoded.
        tying: "adjacent" or "layer_wise".
        encoding: "position", "bag", or "centered_position" as in the authors' code,
            see `SentenceEncoder`.
        time: "table" adds T(i) to a memory. "word" appends the age to the sentence as
            one more word of the vocabulary, as in the authors' code.
        normalizer: the normalizer of the hops, see `MemoryHop`.
        null_memories: whether the softmax includes the empty slots; by default only if
            the normalizer is the string "softmax".
        time_noise: the rate of random time noise during training, see `MemoryAge`; the
            paper's "RN" is 0.1.
        linear_start: whether to start training without the softmax, see `MemoryHop`;
            the callback `LinearStart` switches the softmax on.
        activation: a nonlinearity after each hop; None for no nonlinearity.

    Call arguments:
        inputs: a dict of integers: "story" (B, M, L): the sentences in reading order; 0
            is padding. A sentence that contains only padding is an empty slot, at any
            position. "question" (B, L).

    Returns:
        Logits (B, V). Train with `SparseCategoricalCrossentropy(from_logits=True)`. A
        story may have any number of sentences; all sentences older than `memory_size`
        share one age.

    Raises:
        ValueError: for an unknown argument, tying, encoding or time, null memories
            without the softmax, or sizes below 1. Calls also raise it for ids in NumPy
            arrays that are below 0 or not below the number of ids.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import MemN2N
    >>> model = MemN2N(vocabulary_size=20, embedding_dim=8)
    >>> story = np.array([[[1, 2, 3], [4, 5, 0], [0, 0, 0]]])
    >>> logits = model({"story": story, "question": np.array([[6, 1]])})
    >>> tuple(logits.shape)
    (1, 20)

    Reference:
        Sukhbaatar, Szlam, Weston & Fergus, "End-to-end memory networks" (2015).
    """

    id_sizes: ClassVar[dict[str, str]] = {
        "story": "vocabulary_size",
        "question": "vocabulary_size",
    }

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 20,
        hops: int = 3,
        memory_size: int = 50,
        tying: str = "adjacent",
        encoding: str = "position",
        time: str = "table",
        normalizer: Any = "softmax",
        null_memories: bool | None = None,
        time_noise: float = 0.0,
        linear_start: bool = False,
        activation: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        one_of("tying", tying, TYINGS)
        one_of("time", time, TIMES)
        if null_memories is None:
            null_memories = normalizer == "softmax"
        elif null_memories and normalizer != "softmax":
            raise ValueError(
                "`null_memories` needs normalizer='softmax'. "
                f"Received: normalizer={normalizer!r}"
            )
        check_sizes(
            vocabulary_size=vocabulary_size,
            embedding_dim=embedding_dim,
            hops=hops,
            memory_size=memory_size,
        )

        story = keras.Input((None, None), dtype="int32", name="story")  # (B, M, L)
        question = keras.Input((None,), dtype="int32", name="question")  # (B, L)
        adjacent = tying == "adjacent"

        def words(name: str) -> SentenceEncoder:
            return SentenceEncoder(
                vocabulary_size + (memory_size if time == "word" else 0),
                embedding_dim,
                encoding,
                dtype=dtype,
                name=name,
            )

        def memory(encoder: SentenceEncoder) -> Tensor:
            """Computes Σⱼ lⱼ ∘ A xᵢⱼ + T_A(i)."""
            if time == "word":
                ages = ops.expand_dims(
                    ops.where(age > 0, age + (vocabulary_size - 1), 0), -1
                )
                # A word outside the vocabulary must not be taken for an age.
                known = story < vocabulary_size
                tokens = ops.where(known, story, story + memory_size)
                return encoder(ops.concatenate([tokens, ages], axis=-1))  # (B, M, D)
            times = keras.layers.Embedding(
                memory_size + 1,
                embedding_dim,
                embeddings_initializer=normal(),
                dtype=dtype,
                name=f"{encoder.name}_time",
            )
            add = keras.layers.Add(dtype=dtype, name=f"{encoder.name}_memory")
            return add([encoder(story), times(age)])  # (B, M, D)

        # Keras' Add drops the mask if one of its inputs has none, so pass it on.
        filled = ops.any(masks.padding(story), axis=-1)  # (B, M)
        age = MemoryAge(memory_size, time_noise, name="age")(story)  # (B, M)
        hop = MemoryHop(
            transform=not adjacent,
            activation=activation,
            normalizer=normalizer,
            slots=memory_size if null_memories else None,
            linear_start=linear_start,
            dtype=dtype,
            name="hop",
        )
        if adjacent:
            encoders = [words(f"encoder_{k}") for k in range(hops + 1)]  # A1, C1 … CK
            memories = [memory(encoder) for encoder in encoders]
            state = encoders[0](question)  # B = A1
            for k in range(hops):
                state = hop(  # A_{k+1} = C_k
                    state, memories[k + 1], memories[k], value_mask=filled
                )
            # (3) with Wᵀ = CK; ages are not answers
            logits = encoders[-1](state, reverse=True)[:, :vocabulary_size]  # (B, V)
        else:
            output, inputs = memory(words("output")), memory(words("input"))
            state = words("question_encoder")(question)
            for _ in range(hops):
                state = hop(state, output, inputs, value_mask=filled)
            answer = keras.layers.Dense(
                vocabulary_size,
                use_bias=False,
                kernel_initializer=normal(),
                dtype=dtype,
                name="answer",
            )
            logits = answer(state)  # (3) W u: (B, V)

        super().__init__({"story": story, "question": question}, logits, locals())
        self.normalizer = hop.normalizer
        self.activation = keras.activations.get(activation)
