"""A recurrence over depth: one block, applied several times, and when it halts.

Shapes: B batch, T positions, S positions of a memory, D model width.
"""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import (
    check_shape,
    number,
    one_of,
    positive,
)
from keras_attention.layers.base.checked import check_usable
from keras_attention.layers.base.serialization import Configured, as_config, export
from keras_attention.numerics import masks
from keras_attention.numerics.precision import to_float32
from keras_attention.ops import halting as act
from keras_attention.ops import positions as encodings

Tensor = Any
POSITIONS = ("sinusoidal", "learned")
MASK_NAMES = ("mask", "inputs_mask")  # of our blocks


@export
class AdaptiveHalting(Configured, keras.layers.Layer):
    """Computes the probability that a position halts: p = σ(w xₜ + b).

    It is the `halting` of a `DepthRecurrence`. A position halts at the step where the
    sum of its probabilities exceeds the threshold; see `ops.halting.halting_step`.

    Args:
        threshold: 1 − ε, the sum of probabilities above which a position halts.
        ponder_weight: τ, the weight of the ponder cost in the loss. The cost is the
            mean of N + R over all valid positions: the number of steps and the
            remainder.
        initial_bias: the initial b. The default, 1, halts after two steps at first.

    Call arguments:
        inputs: (B, T, D).

    Returns:
        The probabilities (B, T) in the compute dtype.

    Raises:
        ValueError: for a threshold outside (0, 1] or a negative weight.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import AdaptiveHalting
    >>> x = np.zeros((2, 3, 4), "float32")
    >>> tuple(AdaptiveHalting(threshold=0.9)(x).shape)
    (2, 3)

    Reference:
        Graves, "Adaptive computation time for recurrent neural networks" (2016),
        section 2; Dehghani et al., "Universal Transformers" (2019), section 2.2.
    """

    float_inputs = ("inputs",)

    def __init__(
        self,
        threshold: float = 0.99,
        ponder_weight: float = 0.01,
        initial_bias: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if not 0 < number("threshold", threshold) <= 1:
            raise ValueError(
                "`threshold` must be above 0 and at most 1. "
                f"Received: threshold={threshold}"
            )
        self.threshold = threshold
        self.ponder_weight = number("ponder_weight", ponder_weight, least=0)
        self.initial_bias = number("initial_bias", initial_bias)
        self._dense = keras.layers.Dense(
            1,
            bias_initializer=keras.initializers.Constant(initial_bias),
            dtype=self.dtype_policy,
            name="dense",
        )

    def build(self, inputs_shape: Any) -> None:
        self._dense.build(inputs_shape)
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        return ops.cast(self.probability(inputs), self.compute_dtype)

    def probability(self, inputs: Tensor) -> Tensor:
        """Returns the probabilities (B, T) in float32, or float64 if it is computed.

        Their sum is compared with a threshold close to 1, which half precision rounds.

        Args:
            inputs: (B, T, D).

        Raises:
            RuntimeError: if this layer is not built, or the inputs are symbolic.
        """
        check_usable(self, "probability", inputs)
        logits = to_float32(self._dense(inputs))  # (B, T, 1)
        return ops.sigmoid(ops.squeeze(logits, axis=-1))  # (B, T)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape[:-1], self.compute_dtype)


class Depth(NamedTuple):
    """The result of a recurrence over depth."""

    output: Tensor  # (B, T, D)
    updates: Tensor  # (B, T), the number of steps of each position
    remainder: Tensor  # (B, T), R of each position; 0 without halting


@export
class DepthRecurrence(Configured, keras.layers.Layer):
    """Applies one block several times, with the same weights each time.

        x ← block(x + P(i, t))                           for t = 1 … steps
        P(i, t) = PE(i) + PE(t)                          position i and step t

    With `halting`, each position i halts after its own number of steps:

        pᵢ = σ(w (xᵢ + P(i, t)) + b)                     the probability to halt
        yᵢ ← wᵢ xᵢ + (1 − wᵢ) yᵢ,  y = 0 at first        wᵢ from `halting_step`

    The output is then y. A position that has halted keeps its y; other positions go on
    attending to its x, which the block goes on updating. This follows the authors' code
    (appendix C). The text of the paper (section 2.2) differs: it says that the state of
    a halted symbol is copied to the next steps. The ponder cost is added to the loss of
    the model.

    Args:
        block: a layer from (B, T, D) to (B, T, D): a `TransformerEncoderBlock`, a
            `TransformerDecoderBlock`, or a layer of your own. It gets the mask if its
            call has an argument `mask` or `inputs_mask`.
        steps: the number of steps; with halting, the largest number.
        halting: None for `steps` steps at each position, "adaptive", or an
            `AdaptiveHalting` (or its config).
        position: "sinusoidal" as in the paper; "learned" for a table of positions and
            one of steps; None for no P, if the block itself encodes positions.
        max_length: the number of learned positions; None for other positions.

    Call arguments:
        inputs: (B, T, D).
        mask: booleans (B, T); defaults to the mask that the inputs carry.
        positions: integers (T,) or (B, T), the positions i; defaults to 0 … T − 1. It
            must be None with `position=None`.
        memory: (B, S, ·), for a `TransformerDecoderBlock`.
        memory_mask: booleans (B, S); defaults to the mask that the memory carries.
        attention_mask: booleans, passed on to the block.
        use_causal_mask: passed on to the block; None for the default of the block.
        training: whether to apply dropout.

    Returns:
        (B, T, D) in the compute dtype. The output carries the mask of the inputs. With
        halting, it is 0 at masked positions.

    Raises:
        ValueError: for sizes below 1; a block that is not a layer, or that does not
            preserve the shape of its inputs; an unknown `halting` or `position`;
            learned positions without `max_length`, or a `max_length` without learned
            positions; inputs that are not of rank 3; no memory for a block that needs
            it; `positions` with `position=None`; or known positions outside the table.

    Example:

    >>> import numpy as np
    >>> from keras_attention.layers import DepthRecurrence, TransformerEncoderBlock
    >>> words = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    >>> layer = DepthRecurrence(TransformerEncoderBlock(4, 32), 3, halting="adaptive")
    >>> tuple(layer(words).shape)
    (2, 5, 8)
    >>> tuple(layer.run(words).updates.shape)  # how many steps each word took
    (2, 5)

    Reference:
        Dehghani et al., "Universal Transformers" (2019), section 2.1, section 2.2 and
        appendix C.
    """

    float_inputs = ("inputs", "memory")
    id_sizes: ClassVar[dict[str, str]] = {"positions": "max_length"}

    def __init__(
        self,
        block: Any,
        steps: int = 6,
        halting: Any = None,
        position: str | None = "sinusoidal",
        max_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if not isinstance(block, keras.layers.Layer):
            raise ValueError(f"`block` must be a layer. Received: block={block!r}")
        one_of("position", position, (*POSITIONS, None))
        if position == "learned":
            if max_length is None:
                raise ValueError(
                    "`max_length` must be given with position='learned'. "
                    "Received: max_length=None"
                )
            max_length = positive("max_length", max_length)
        elif max_length is not None:
            raise ValueError(
                "`max_length` must be None unless position='learned'. "
                f"Received: max_length={max_length!r}, position={position!r}"
            )
        self.block = block
        self.steps = positive("steps", steps)
        self.halting: Any = halting_layer(halting, self.dtype_policy)
        self.position = position
        self.max_length = max_length
        accepted = signature(block.call).parameters
        self._mask_name = next((n for n in MASK_NAMES if n in accepted), None)
        memory = accepted.get("memory")
        self._needs_memory = memory is not None and memory.default is Parameter.empty

    def build(self, inputs_shape: Any, memory_shape: Any = None) -> None:
        form = "(batch, length, width)"
        shape = check_shape("inputs", inputs_shape, form, what="rank 3,")
        self._check_memory(memory_shape)
        options = {}
        if memory_shape is not None:
            options["memory"] = keras.KerasTensor(memory_shape, self.compute_dtype)
        output = self.block(keras.KerasTensor(shape, self.compute_dtype), **options)
        if tuple(getattr(output, "shape", ())) != shape:
            raise ValueError(
                "`block` must return a tensor of the shape of its inputs, "
                f"{shape}. Received: block={self.block!r}, which returns {output}"
            )
        if self.halting is not None and not self.halting.built:
            self.halting.build(shape)
        if self.position == "learned":
            self._places = self._table("positions", self.max_length, shape[-1])
            self._times = self._table("steps", self.steps, shape[-1])
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool | None = None,
        training: bool | None = None,
    ) -> Tensor:
        depth, cost = self._run(
            inputs,
            mask,
            positions,
            memory=memory,
            memory_mask=memory_mask,
            attention_mask=attention_mask,
            use_causal_mask=use_causal_mask,
            training=training,
        )
        if cost is not None and self.halting.ponder_weight:
            self.add_loss(self.halting.ponder_weight * cost)
        return depth.output

    def run(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
        **options: Any,
    ) -> Depth:
        """Computes the output and how many steps each position took, without a loss.

        Args:
            inputs: (B, T, D), not symbolic.
            mask: booleans (B, T); defaults to the mask that the inputs carry.
            positions: as in a call.
            **options: the other arguments of a call.

        Returns:
            A named tuple of the `output` (B, T, D), the number of `updates` (B, T) and
            the `remainder` (B, T). Without halting, all valid positions have `steps`
            updates.

        Raises:
            RuntimeError: if this layer is not built, or the inputs are symbolic.
            ValueError: as in a call.
        """
        check_usable(self, "run", None)
        if isinstance(inputs, keras.KerasTensor):
            raise RuntimeError(
                "`inputs` of `run` must not be symbolic, or the weights of layer "
                f"{self.name!r} would be left out of the model: call the layer. "
                f"Received: inputs={inputs}"
            )
        tensors = {"positions": positions, "memory": options.get("memory")}
        self.check_given({name: x for name, x in tensors.items() if x is not None})
        mask = kernels.carried_mask(inputs) if mask is None else mask
        return self._run(inputs, mask, positions, **options)[0]

    def check_given(self, given: dict[str, Any]) -> None:
        super().check_given(given)
        if self.position is None and "positions" in given:
            raise ValueError(
                "`positions` must be None with position=None, which does not use them. "
                f"Received: positions={given['positions']!r}"
            )
        self._check_memory(given.get("memory"))

    def _check_memory(self, memory: Any) -> None:
        if self._needs_memory and memory is None:
            raise ValueError(
                f"`memory` must be given for block={self.block!r}. "
                "Received: memory=None"
            )

    def _run(
        self, inputs: Tensor, mask: Tensor | None, positions: Any, **options: Any
    ) -> tuple[Depth, Tensor | None]:
        """Returns the result, and the ponder cost or None."""
        options = {name: x for name, x in options.items() if x is not None}
        x = ops.cast(inputs, self.compute_dtype)
        mask = masks.check("mask", mask, tuple(inputs.shape[:-1]))
        if self._mask_name is not None:
            options[self._mask_name] = mask
        is_valid = ops.ones(ops.shape(x)[:2], "bool")
        if mask is not None:
            is_valid = ops.logical_and(is_valid, mask)  # the mask may be (1, T)
        state = act.initial_halting(is_valid)
        if self.position is not None:
            positions = self._checked_positions(x, positions)
        if self.position == "learned":
            positions = self._places(positions)  # once: the gradient is a scatter
        states, weights = [], []
        for step in range(1, self.steps + 1):
            if self.position == "learned":
                x = x + (positions + self._times(ops.convert_to_tensor(step - 1)))
            elif self.position is not None:
                time, width = ops.convert_to_tensor(step), x.shape[-1]
                waves = encodings.coordinates(positions, time, width)
                x = x + ops.cast(waves, x.dtype)
            if self.halting is None:
                x = self.block(x, **options)
                continue
            probability = self.halting.probability(x)
            x = self.block(x, **options)
            weight, state = act.halting_step(probability, state, self.halting.threshold)
            states.append(x)
            weights.append(weight)
        if self.halting is None:
            updates = self.steps * ops.cast(is_valid, "float32")
            return Depth(x, updates, ops.zeros_like(updates)), None
        cost = act.ponder_cost(state, is_valid)
        output = act.interpolate(states, weights)
        return Depth(output, state.updates, state.remainder), cost

    def _checked_positions(self, x: Tensor, positions: Tensor | None) -> Tensor:
        """Returns the positions i of the inputs, by default 0 … T − 1."""
        if positions is not None:
            return positions
        length = x.shape[1]
        if None not in (length, self.max_length) and length > self.max_length:
            raise ValueError(
                "`inputs` must have at most `max_length` positions. "
                f"Received: inputs.shape={tuple(x.shape)}, "
                f"max_length={self.max_length}"
            )
        return masks.positions(ops.shape(x)[1])

    def _table(self, name: str, count: Any, width: int) -> keras.layers.Embedding:
        table = keras.layers.Embedding(
            count,
            width,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=0.1),
            dtype=self.dtype_policy,
            name=name,
        )
        table.build()
        return table

    def compute_output_spec(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Any:
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "block": as_config(self.block)}


def halting_layer(identifier: Any, dtype: Any = None) -> AdaptiveHalting | None:
    """Returns the layer that `halting` names: a layer, its config, a name or None."""
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    if identifier == "adaptive":
        return AdaptiveHalting(dtype=dtype, name="halting")
    if identifier is None or isinstance(identifier, AdaptiveHalting):
        return identifier
    raise ValueError(
        "`halting` must be 'adaptive', an `AdaptiveHalting` or None. "
        f"Received: halting={identifier!r}"
    )
