"""A network with an external memory that answers at some steps of a sequence.

Shapes: B batch, T steps, D input width, V outputs, M memory slots.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.checked import check_ids
from keras_attention.layers.base.serialization import export
from keras_attention.layers.external_memory.dnc import DNC
from keras_attention.models.base.configured_model import ConfiguredModel, check_sizes
from keras_attention.models.base.strings import AnswersQuestions

Tensor = Any


@export
class DNCNetwork(AnswersQuestions, ConfiguredModel):
    """Reads a sequence into a memory, and answers at the answer steps.

        xₜ = inputₜ, or the embedding of a token, or its one-hot vector
        oₜ = DNC(x₁ … xₜ)
        yₜ = W oₜ + b        at the answer steps, and 0 at all other steps

    The outputs carry the mask of the answer steps. With any loss and any metric of
    Keras, `fit` and `evaluate` therefore only count these steps.

    Inputs after the last answer step have no effect, so vectors may have any padding.
    For tokens, 0 is padding: the memory does not change there, and these steps cannot
    be answer steps. If a step without an input is an answer step, use a separate token
    there.

    Args:
        cell: a `DNCCell` or an `NTMCell`. The cell keeps its dtype. A cell without
            `output_units` returns the controller's output and the read vectors; W then
            computes the answers of all steps at once.
        output_units: V, the number of logits per step.
        input_dim: D, for vectors; None for tokens. The initial kernels of Keras' cells
            are scaled for inputs of variance 1. Vectors that are almost all zeros
            therefore have a weak effect at first.
        vocabulary_size: the number of tokens, including padding 0; None for vectors.
        embedding_dim: the width of the token embedding, whose initial values have
            variance 1; None for one-hot vectors.
        checkpoint_steps: the number of steps that training recomputes together, see
            `DNC`.
        trained_slots: M₀, the number of slots in training, if it differs from that of
            the cell. `resized` sets and uses it.

    Inputs: a dict of
        inputs: floats (B, T, D), or int32 tokens (B, T).
        answer_mask: booleans (B, T), True at the answer steps.

    Returns:
        Logits (B, T, V). If each of the V outputs is a bit, train with
        `BinaryCrossentropy(from_logits=True)` and targets (B, T, V). If exactly one of
        them is correct, train with `SparseCategoricalCrossentropy(from_logits=True)`
        and targets (B, T).

    Raises:
        ValueError: for sizes below 1; both or neither of `input_dim` and
            `vocabulary_size`; a cell that is neither a `DNCCell` nor an `NTMCell`; or,
            in `fit`, `evaluate`, `train_on_batch` and `test_on_batch` of arrays, a
            sequence without an answer step, or with an answer step at a token 0. Data
            sets and generators are not checked. Their sequences without an answer step
            are not counted. Calls also raise it for ids in NumPy arrays that are below
            0 or not below the number of ids.

    Example:

    >>> import numpy as np
    >>> import keras
    >>> from keras_attention.layers import DNCCell
    >>> from keras_attention.models import DNCNetwork
    >>> cell = DNCCell(keras.layers.LSTMCell(8), memory_slots=6, word_width=4)
    >>> model = DNCNetwork(cell, output_units=3, input_dim=5)
    >>> answer_mask = np.array([[False, False, True, True]] * 2)
    >>> inputs = {"inputs": np.ones((2, 4, 5)), "answer_mask": answer_mask}
    >>> logits = model(inputs)
    >>> tuple(logits.shape)
    (2, 4, 3)

    Reference:
        Graves et al., "Hybrid computing using a neural network with dynamic external
        memory" (2016); `NTMCell`: Graves, Wayne & Danihelka, "Neural Turing machines"
        (2014).
    """

    id_sizes: ClassVar[dict[str, str]] = {"inputs": "vocabulary_size"}

    def __init__(
        self,
        cell: Any,
        output_units: int,
        input_dim: int | None = None,
        vocabulary_size: int | None = None,
        embedding_dim: int | None = None,
        checkpoint_steps: Any = None,
        trained_slots: int | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        output_units = positive("output_units", output_units)
        _check_inputs(input_dim, vocabulary_size, embedding_dim)
        if trained_slots is not None:
            positive("trained_slots", trained_slots)
        memory = DNC(
            cell,
            return_sequences=True,
            checkpoint_steps=checkpoint_steps,
            dtype=dtype,
            name="dnc",
        )
        answer_mask = keras.Input((None,), dtype="bool", name="answer_mask")  # (B, T)
        embedding = None
        if embedding_dim is not None:
            embedding = keras.layers.Embedding(
                vocabulary_size,
                embedding_dim,
                # Keras' small initial values have almost no effect on a controller.
                embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0),
                dtype=dtype,
                name="embedding",
            )
        if vocabulary_size is None:
            inputs = keras.Input((None, input_dim), name="inputs")  # (B, T, D)
            features, mask = _until_last_answer(inputs, answer_mask), None
        else:
            inputs = keras.Input((None,), dtype="int32", name="inputs")  # (B, T)
            features, mask = _embedded(inputs, vocabulary_size, embedding, memory)
        output = memory(features, mask=mask)  # (B, T, ·)
        dense = keras.layers.Dense(output_units, dtype=dtype, name="logits")
        answers = AskedSteps(dtype=dtype, name="answers")
        logits = answers([dense(output), answer_mask])  # (B, T, V)

        super().__init__(
            {"inputs": inputs, "answer_mask": answer_mask}, logits, locals()
        )
        self._memory = memory
        self._embedding = embedding

    @property
    def cell(self) -> Any:
        """The `DNCCell` or `NTMCell` of the network."""
        return self._memory.cell

    def _check_data(self, method: str, args: tuple, kwargs: dict[str, Any]) -> None:
        if not method.startswith("predict"):
            inputs = args[0] if args else kwargs.get("x")
            check_answers(inputs, padding=self.vocabulary_size is not None)
        if method in ("fit", "train_on_batch"):
            self.trained_slots = None  # from now on, those of the cell
        super()._check_data(method, args, kwargs)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        # On JAX, outputs of a differentiated function have no mask.
        if isinstance(x, dict):
            y_pred = self.get_layer("answers")([y_pred, x["answer_mask"]])
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def trace(self, inputs: Any) -> Any:
        """Records the memory while the network reads all steps; see `DNC.trace`.

        Args:
            inputs: the inputs of the model, or only their entry "inputs".

        Returns:
            A named tuple of NumPy arrays, for
            `keras_attention.visualization.plot_memory`.
        """
        sequence = inputs["inputs"] if isinstance(inputs, dict) else inputs
        if self.vocabulary_size is None:
            return self._memory.trace(ops.convert_to_tensor(sequence, "float32"))
        check_ids("inputs", np.asarray(sequence), self.vocabulary_size)
        sequence = ops.convert_to_tensor(sequence, "int32")
        parts = self._embedding, self._memory
        features, mask = _embedded(sequence, self.vocabulary_size, *parts)
        return self._memory.trace(features, mask=mask)

    def resized(self, memory_slots: int, scale_epsilon: bool = False) -> DNCNetwork:
        """Returns a copy with the same weights and another number of memory slots.

        No weight depends on the number of slots. More slots than in training give space
        for longer sequences.

        Args:
            memory_slots: M, the new number of slots.
            scale_epsilon: whether to scale the ε of content addressing by (M₀ / M)²,
                where M₀ is the number of slots in training, see `DNCCell`. This helps
                with many times as many slots. A copy keeps M₀, also for its own copies,
                until `fit` or `train_on_batch` trains it: M₀ is then its own number of
                slots, unless its ε is scaled. If not, ε is that of M₀ = M. An `NTMCell`
                keeps its ε.

        Returns:
            A separate model, not compiled.
        """
        config = copy.deepcopy(self.get_config())
        slots: Any = positive("memory_slots", memory_slots)
        trained = self.trained_slots or getattr(self.cell, "trained_slots", None)
        scales = scale_epsilon and trained is not None
        config["cell"]["config"]["memory_slots"] = [slots, trained] if scales else slots
        config["trained_slots"] = None if scales else trained
        made = type(self).from_config(config)
        made.set_weights(self.get_weights())
        return made


@export
class AskedSteps(keras.layers.Layer):
    """Returns the answers at the answer steps, and 0 at all other steps.

    Call arguments:
        inputs: a list of answers (B, T, V) and booleans (B, T), True at the answer
            steps.

    Returns:
        (B, T, V), with the booleans as its mask.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.built = True

    def call(self, inputs: list[Tensor]) -> Tensor:
        answers, answer_mask = inputs
        return ops.where(
            ops.expand_dims(answer_mask, 2), answers, ops.zeros_like(answers)
        )

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return inputs[1]

    def compute_output_spec(self, inputs: list[Any]) -> keras.KerasTensor:
        return keras.KerasTensor(inputs[0].shape, self.compute_dtype)


def check_answers(inputs: Any, padding: bool = False) -> None:
    """Raises a ValueError for a sequence without an answer step, or one at padding.

    `padding` tells whether 0 in the inputs is padding, which cannot be an answer step.
    """
    answer_mask = _array(inputs, "answer_mask")
    if answer_mask is None or answer_mask.ndim != 2:
        return
    without = np.flatnonzero(~answer_mask.astype(bool).any(1))
    if len(without):
        raise ValueError(
            "`answer_mask` must be True at one step of each sequence at least. "
            f"Received: {len(without)} of {len(answer_mask)} sequences without a step "
            f"to answer at, answer_mask[{without[0]}] the first of them"
        )
    tokens = _array(inputs, "inputs") if padding else None
    if tokens is None or tokens.shape != answer_mask.shape:
        return
    at = np.argwhere(answer_mask.astype(bool) & (tokens == 0))
    if len(at):
        row, step = at[0]
        raise ValueError(
            "`answer_mask` must be False where a token is 0, which is padding; a step "
            "at which nothing is read needs a token of its own. Received: "
            f"{len(at)} steps to answer at among the padding, "
            f"answer_mask[{row}, {step}] the first of them"
        )


def _array(inputs: Any, name: str) -> np.ndarray | None:
    """Returns the input `name` if it is a NumPy or backend array, else None."""
    array = inputs.get(name) if isinstance(inputs, dict) else None
    if isinstance(array, np.ndarray):
        return array
    return ops.convert_to_numpy(array) if ops.is_tensor(array) else None


def _check_inputs(
    input_dim: int | None, vocabulary_size: int | None, embedding_dim: int | None
) -> None:
    if (input_dim is None) == (vocabulary_size is None):
        raise ValueError(
            "`DNCNetwork` needs `input_dim` for vectors or `vocabulary_size` for "
            f"tokens, one of the two. Received: input_dim={input_dim}, "
            f"vocabulary_size={vocabulary_size}"
        )
    if embedding_dim is not None and vocabulary_size is None:
        raise ValueError(
            "`embedding_dim` is for tokens and needs `vocabulary_size`. "
            f"Received: embedding_dim={embedding_dim}, input_dim={input_dim}"
        )
    sizes = {
        "input_dim": input_dim,
        "vocabulary_size": vocabulary_size,
        "embedding_dim": embedding_dim,
    }
    check_sizes(**{name: size for name, size in sizes.items() if size is not None})


def _until_last_answer(inputs: Tensor, answer_mask: Tensor) -> Tensor:
    """Sets vectors after the last answer step to 0.

    A NaN there would reach the gradients.
    """
    answers = ops.cast(answer_mask, "int32")
    before = ops.cumsum(answers, axis=1) - answers  # (B, T), earlier answers
    needed = before < ops.sum(answers, axis=1, keepdims=True)
    return ops.where(ops.expand_dims(needed, 2), inputs, ops.zeros_like(inputs))


def _embedded(
    tokens: Tensor, vocabulary_size: int, embedding: Any, memory: Any
) -> tuple[Tensor, Tensor]:
    """Returns the vectors (B, T, ·) that the memory reads, and their mask (B, T)."""
    mask = ops.not_equal(tokens, 0)
    if embedding is not None:
        return embedding(tokens), mask
    return ops.one_hot(tokens, vocabulary_size, dtype=memory.compute_dtype), mask
