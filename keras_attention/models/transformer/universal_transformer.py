"""The Universal Transformer, as a model that answers questions about stories.

Shapes: B batch, M sentences, L words, D model width, V vocabulary.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention.layers import DepthRecurrence, MemoryAge, SentenceEncoder
from keras_attention.layers.base.arguments import fraction, positive
from keras_attention.layers.base.serialization import export
from keras_attention.layers.transformer.blocks import Block, copy_layer, norm_like
from keras_attention.layers.transformer.depth_recurrence import halting_layer
from keras_attention.models.base.configured_model import ConfiguredModel, check_sizes
from keras_attention.models.base.generation import named_input
from keras_attention.models.base.strings import AnswersQuestions
from keras_attention.models.transformer.backbone import Architecture
from keras_attention.numerics import masks

Tensor = Any


@export
class UniversalTransformer(AnswersQuestions, ConfiguredModel):
    """Answers a question about a story by one Transformer block, applied several times.

        xᵢ = √D Σⱼ fⱼ ∘ E wᵢⱼ                   sentence i; x₀ is the question
        x ← block(x + P(age, t))                for t = 1 … steps
        answer = softmax(W x₀ + b)

    Each sentence is one position of the sequence. Its coordinate is its age: 1 for the
    newest sentence, 0 for the question. All steps share the weights of the block. With
    `halting`, each position halts after its own number of steps; see `DepthRecurrence`,
    which also applies a block to sequences of words.

    Args:
        vocabulary_size: V, the number of different words, padding (0) included.
        dim: D, the width of the model.
        num_heads: the number of heads of the block's attention; defaults to 8. Must be
            None if `block` is a layer.
        intermediate_dim: the width of the hidden layer of the block's MLP; defaults to
            4 D. Must be None if `block` is a layer.
        steps: the number of steps; with halting, the largest number.
        halting: None, "adaptive", or an `AdaptiveHalting`, whose ponder cost is added
            to the loss.
        memory_size: the largest age; all older sentences share it.
        encoding: the encoding of a sentence, see `SentenceEncoder`: "learned" as in the
            paper, "position", "centered_position" or "bag".
        position: "sinusoidal" as in the paper; "learned", tables of ages and steps
            (the embeddings are then not multiplied by √D); or None.
        time_noise: the rate of random time noise during training, see `MemoryAge`.
        dropout: the dropout rate of the sentences and of each sublayer's output.
        block: a layer from (B, T, D) to (B, T, D) that is not built, which is copied;
            or a dict of further arguments of a `TransformerEncoderBlock`, for instance
            `norm_first`. A block with `norm_first` is followed by a normalization.

    Call arguments:
        inputs: a dict of integers: "story" (B, M, L): the sentences in reading order; 0
            is padding. A sentence that contains only padding is masked, at any
            position. "question" (B, L).

    Returns:
        Logits (B, V). Train with `SparseCategoricalCrossentropy(from_logits=True)`.

    Raises:
        ValueError: for sizes below 1; heads that do not divide `dim`; a dropout outside
            [0, 1); an unknown encoding, position or halting; or a `block` that is
            neither a dict of such arguments nor a layer that is not built. Calls also
            raise it for ids in NumPy arrays that are below 0 or not below the number of
            ids.

    Example:

    >>> import numpy as np
    >>> from keras_attention.models import UniversalTransformer
    >>> model = UniversalTransformer(20, dim=8, num_heads=2, halting="adaptive")
    >>> story = np.array([[[1, 2, 3], [4, 5, 0], [0, 0, 0]]])
    >>> inputs = {"story": story, "question": np.array([[6, 1]])}
    >>> tuple(model(inputs).shape)
    (1, 20)
    >>> model.ponder_times(inputs)["story"][0, 2].item()  # an empty sentence
    0

    Reference:
        Dehghani, Gouws, Vinyals, Uszkoreit & Kaiser, "Universal Transformers" (2019),
        sections 2 and 3.1; halting: Graves, "Adaptive computation time for recurrent
        neural networks" (2016), section 2.
    """

    id_sizes: ClassVar[dict[str, str]] = {
        "story": "vocabulary_size",
        "question": "vocabulary_size",
    }

    def __init__(
        self,
        vocabulary_size: int,
        dim: int = 128,
        num_heads: int | None = None,
        intermediate_dim: int | None = None,
        steps: int = 6,
        halting: Any = None,
        memory_size: int = 50,
        encoding: str = "learned",
        position: str | None = "sinusoidal",
        time_noise: float = 0.0,
        dropout: float = 0.1,
        block: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        check_sizes(vocabulary_size=vocabulary_size, dim=dim, memory_size=memory_size)
        fraction("dropout", dropout)
        if isinstance(block, keras.layers.Layer):
            for name, value in (
                ("num_heads", num_heads),
                ("intermediate_dim", intermediate_dim),
            ):
                if value is not None:
                    raise ValueError(
                        f"`{name}` must be None where `block` is a layer. "
                        f"Received: {name}={value!r}"
                    )
            if block.built and block.weights:
                raise ValueError(
                    "`block` must not be built: the model gets a layer made from its "
                    f"config, without its weights. Received: block={block!r}, which is "
                    "built"
                )
            shared = copy_layer(block, "block")
        else:
            width = 4 * dim if intermediate_dim is None else intermediate_dim
            arguments = {**locals(), "intermediate_dim": width, "position": None}
            shared = Architecture(arguments).encoder("block")
        halting = halting_layer(halting, dtype)
        scales = position != "learned"
        encoder = SentenceEncoder(
            vocabulary_size,
            dim,
            encoding,
            embeddings_initializer=(
                keras.initializers.RandomNormal(stddev=dim**-0.5) if scales else None
            ),
            dtype=dtype,
            name="sentence_encoder",
        )
        depth = DepthRecurrence(
            shared,
            steps,
            None if halting is None else copy_layer(halting, "halting"),
            position,
            max_length=memory_size + 1 if position == "learned" else None,
            dtype=dtype,
            name="depth",
        )
        story = keras.Input((None, None), dtype="int32", name="story")  # (B, M, L)
        question = keras.Input((None,), dtype="int32", name="question")  # (B, L)
        filled = ops.any(masks.padding(story), axis=-1)  # (B, M)
        age = MemoryAge(memory_size, time_noise, name="age")(story)  # (B, M)
        asked = ops.zeros_like(question[:, :1])  # (B, 1)
        x = ops.concatenate(
            [encoder(story), ops.expand_dims(encoder(question), 1)], axis=1
        )  # (B, M + 1, D)
        x = keras.layers.Dropout(dropout, dtype=dtype, name="sentence_dropout")(
            x * dim**0.5 if scales else x
        )
        mask = ops.concatenate([filled, ops.equal(asked, 0)], axis=1)
        ages = ops.concatenate([age, asked], axis=1)  # (B, M + 1)
        coordinates = {} if position is None else {"positions": ages}
        states = depth(x, mask=mask, **coordinates)
        state = states[:, -1]  # (B, D)
        if isinstance(shared, Block) and shared.norm_first:
            state = norm_like(shared, "last_norm")(state)
        logits = keras.layers.Dense(vocabulary_size, dtype=dtype, name="answer")(state)
        super().__init__({"story": story, "question": question}, logits, locals())
        self._depth = depth
        self._before_depth = {"inputs": x, "mask": mask, **coordinates}

    def ponder_times(
        self, inputs: dict[str, Any], batch_size: int = 32
    ) -> dict[str, np.ndarray]:
        """Returns the number of steps of each sentence and of the question.

        Args:
            inputs: as in a call.
            batch_size: the number of questions per step.

        Returns:
            A dict of integers: "story" (B, M), 0 for an empty sentence, and "question"
            (B,).

        Raises:
            ValueError: for inputs that do not fit, or a `batch_size` below 1.
        """
        if not isinstance(inputs, dict):
            raise ValueError(
                "`inputs` must be a dict with the entries 'story' and 'question'. "
                f"Received: inputs of the type {type(inputs).__name__}"
            )
        self._check_data("ponder_times", (inputs,), {})
        arrays = {x.name: named_input(x.name, inputs) for x in self.inputs}
        before = keras.Model(self.inputs, self._before_depth)
        count, size = len(arrays["question"]), positive("batch_size", batch_size)
        batches = []
        for start in range(0, count, size):
            batch = {k: x[start : start + size] for k, x in arrays.items()}
            updates = self._depth.run(
                **before(batch, training=False), training=False
            ).updates
            batches.append(ops.convert_to_numpy(updates).astype("int32"))
        updates = np.concatenate(batches)  # (B, M + 1)
        return {"story": updates[:, :-1], "question": updates[:, -1]}
