"""A recurrence over depth: one block, applied several times.

Shapes: B batch, T positions, S positions of a memory, D model width.
"""

from __future__ import annotations

from inspect import signature
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.serialization import Configured, as_config, export
from keras_attention.layers.transformer import adaptive_halting
from keras_attention.numerics import masks
from keras_attention.ops import halting as act
from keras_attention.ops import positions as encodings

Tensor = Any
POSITIONS = ("sinusoidal", "learned")
MASK_NAMES = ("mask", "inputs_mask")  # of our blocks


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
    attending to its x. The ponder cost is added to the loss of the model.

    Args:
        block: a layer from (B, T, D) to (B, T, D): a `TransformerEncoderBlock`, a
            `TransformerDecoderBlock`, or a layer of your own. It gets the mask if its
            call has an argument `mask` or `inputs_mask`.
        steps: the number of steps; with halting, the largest number.
        halting: None for `steps` steps at each position, "adaptive", or an
            `AdaptiveHalting`.
        position: "sinusoidal" as in the paper; "learned" for a table of positions and
            one of steps; None for no P, if the block itself encodes positions.
        max_length: the number of learned positions.

    Call arguments:
        inputs: (B, T, D).
        mask: booleans (B, T); defaults to the mask that the inputs carry.
        positions: integers (T,) or (B, T), the positions i; defaults to 0 … T − 1.
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
            preserve the shape of its inputs; an unknown `halting` or `position`; or
            learned positions without `max_length`.

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
        if position is not None and position not in POSITIONS:
            raise ValueError(
                f"`position` must be one of {list(POSITIONS)}, or None. "
                f"Received: position={position!r}"
            )
        if position == "learned" and max_length is None:
            raise ValueError(
                "`max_length` must be given with position='learned'. "
                "Received: max_length=None"
            )
        self.block = block
        self.steps = positive("steps", steps)
        self.halting = adaptive_halting.get(halting)
        self.position = position
        if max_length is not None:
            positive("max_length", max_length)
        self.max_length = max_length
        accepted = signature(block.call).parameters
        self._mask_name = next((n for n in MASK_NAMES if n in accepted), None)

    def build(self, inputs_shape: Any, memory_shape: Any = None) -> None:
        shape = tuple(inputs_shape)
        if len(shape) != 3:
            raise ValueError(
                "`inputs` must have rank 3, (batch, length, width). "
                f"Received: inputs.shape={shape}"
            )
        more = {}
        if memory_shape is not None:
            more["memory"] = keras.KerasTensor(memory_shape, self.compute_dtype)
        found = self.block(keras.KerasTensor(shape, self.compute_dtype), **more)
        if tuple(getattr(found, "shape", ())) != shape:
            raise ValueError(
                "`block` must return a tensor of the shape of its inputs, "
                f"{shape}. Received: block={self.block!r}, which returns {found}"
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
        found, cost = self._run(
            inputs,
            mask,
            positions,
            memory=memory,
            memory_mask=memory_mask,
            attention_mask=attention_mask,
            use_causal_mask=use_causal_mask,
            training=training,
        )
        if cost is not None:
            self.add_loss(self.halting.ponder_weight * cost)
        return found.output

    def run(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
        **more: Any,
    ) -> Depth:
        """Computes the output and how many steps each position took, without a loss.

        Args:
            inputs: (B, T, D), not symbolic. The layer must be built.
            mask: booleans (B, T).
            positions: as in a call.
            **more: the other arguments of a call.

        Returns:
            A named tuple of the `output` (B, T, D), the number of `updates` (B, T) and
            the `remainder` (B, T). Without halting, all valid positions have `steps`
            updates.
        """
        return self._run(inputs, mask, positions, **more)[0]

    def _run(
        self, inputs: Tensor, mask: Tensor | None, positions: Tensor | None, **more: Any
    ) -> tuple[Depth, Tensor | None]:
        """Returns the result, and the ponder cost or None."""
        more = {name: value for name, value in more.items() if value is not None}
        x = ops.cast(inputs, self.compute_dtype)
        mask = masks.check("mask", mask, tuple(inputs.shape[:-1]))
        if self._mask_name is not None:
            more[self._mask_name] = mask
        is_valid = ops.ones(ops.shape(x)[:2], "bool") if mask is None else mask
        state = act.initial_halting(is_valid)
        places = self._embed_positions(x, positions)  # (B, T, D), or None
        output = ops.zeros_like(x)
        for step in range(self.steps):
            if places is not None:
                x = x + places + self._embed_step(step, x.shape[-1])
            if self.halting is None:
                x = self.block(x, **more)
                continue
            probability = self.halting(x)
            x = self.block(x, **more)
            weight, state = act.halting_step(probability, state, self.halting.threshold)
            weight = ops.cast(ops.expand_dims(weight, -1), x.dtype)  # (B, T, 1)
            output = weight * x + (1 - weight) * output
        if self.halting is None:
            updates = self.steps * ops.cast(is_valid, "float32")
            return Depth(x, updates, ops.zeros_like(updates)), None
        cost = act.ponder_cost(state, is_valid)
        return Depth(output, state.updates, state.remainder), cost

    def _embed_positions(self, x: Tensor, positions: Tensor | None) -> Tensor | None:
        """Returns the part of P that depends on the position, (T, D) or (B, T, D)."""
        if self.position is None:
            return None
        if positions is None:
            positions = masks.positions(ops.shape(x)[1])
        if self.position == "learned":
            return self._places(positions)
        return ops.cast(encodings.sinusoid(positions, x.shape[-1]), x.dtype)

    def _embed_step(self, step: int, width: int) -> Tensor:
        """Returns the part of P that depends on the step, counted from 0, (D,)."""
        if self.position == "learned":
            return self._times(ops.convert_to_tensor(step, "int32"))
        wave = encodings.sinusoid(ops.convert_to_tensor(step + 1), width)
        return ops.cast(wave, self.compute_dtype)

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

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "block": as_config(self.block)}
