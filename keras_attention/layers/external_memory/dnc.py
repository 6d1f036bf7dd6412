"""A layer that runs a cell with an external memory over a sequence.

Shapes: B batch, T steps, D width of an input, V width of the output, M memory slots, W
word width, R read heads, H write heads, U units of the controller, K links of a slot.
"""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import check_shape, positive
from keras_attention.layers.base.cells import (
    check_states,
    has_dropout,
    last,
    replace_state,
    sequence_dropout,
    state_widths,
    time_swapped,
)
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.layers.external_memory.memory_cell import MemoryCell, Trace
from keras_attention.numerics import masks
from keras_attention.ops.sequence import loop

Tensor = Any


@export
class DNC(Configured, keras.layers.Layer):
    """Runs a `DNCCell` or `NTMCell` over a sequence (Differentiable Neural Computer).

    The memory is empty at the start of a sequence. `keras.layers.RNN(cell)` returns the
    same outputs, but this layer has advantages: masks are correct for all shapes,
    dropout is sampled before the loop, the output projection is applied to all steps at
    once, the state keeps its shapes, and `checkpoint_steps` makes long sequences fit
    into device memory.

    Args:
        cell: a `DNCCell` or an `NTMCell`.
        return_sequences: whether to return the outputs of all steps.
        return_state: whether to return the last state as well.
        checkpoint_steps: the number of steps that are recomputed together for the
            gradients: an integer, or "auto" for √T. The memory use then grows with the
            number of such groups of steps instead of T. The gradients are the same.
            None stores all steps. A controller with dropout can only train with None.

    Call arguments:
        inputs: (B, T, D).
        initial_state: the state returned with `return_state`, or only the state of the
            controller, as a list of tensors. Defaults to an empty memory and zeros.
        mask: booleans (B, T). A step with False does not change the state, and its
            output is 0. Defaults to the mask that the inputs carry.
        inputs_mask: another name of `mask`. Keras uses this name if there is an
            initial state.
        training: whether to apply dropout.

    Returns:
        The outputs (B, T, V). Without `return_sequences`, only the output of the last
        unmasked step, (B, V). With `return_state`, the tensors of the state follow. For
        a `DNCCell`, they are the states of the controller (B, U), r (B, R W), M (B, M,
        W), u (B, M), wʷ (B, H, M), wʳ (B, R, M) and, with links, p (B, H, M) and L (B,
        H, M, M). Sparse links are two tensors (B, H, K, M), slots and values. (B batch,
        T steps, U units of the controller, M slots of W numbers, R read heads and H
        write heads, K links of a slot.)

    Raises:
        ValueError: for a cell without a memory; `checkpoint_steps` below 1, or set
            while a controller with dropout trains; an initial state with wrong sizes;
            or a mask that does not fit.

    Example:

    >>> import keras, numpy as np
    >>> from keras_attention.layers import DNC, DNCCell
    >>> dnc = DNC(DNCCell(keras.layers.LSTMCell(8), 16, 4, output_units=3))
    >>> x = np.ones((2, 5, 7), "float32")
    >>> tuple(dnc(x).shape)
    (2, 3)
    >>> dnc.trace(x).write_weights.shape
    (2, 5, 1, 16)

    Reference:
        Graves et al., "Hybrid computing using a neural network with dynamic external
        memory" (2016), Nature 538.
    """

    float_inputs = ("inputs", "memory")

    def __init__(
        self,
        cell: MemoryCell,
        return_sequences: bool = False,
        return_state: bool = False,
        checkpoint_steps: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        # Keras would round the memory of an initial state to half precision.
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True
        if not isinstance(cell, MemoryCell):
            raise ValueError(
                "`cell` must be a DNCCell or an NTMCell of keras_attention. "
                f"Received: cell={cell!r}"
            )
        if isinstance(checkpoint_steps, str) and checkpoint_steps != "auto":
            raise ValueError(
                "`checkpoint_steps` must be a number of steps, 'auto' or None. "
                f"Received: checkpoint_steps={checkpoint_steps!r}"
            )
        if checkpoint_steps not in ("auto", None):
            checkpoint_steps = positive("checkpoint_steps", checkpoint_steps)
        self.cell = cell
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.checkpoint_steps = checkpoint_steps

    def build(self, inputs_shape: Any) -> None:
        _check_inputs(inputs_shape)
        if not self.cell.built:
            self.cell.build((inputs_shape[0], inputs_shape[-1]))
        self.built = True

    def call(
        self,
        inputs: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        inputs_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        mask = inputs_mask if mask is None else mask
        if mask is not None:
            mask = masks.check("mask", mask, inputs.shape[:2])
        output, state, _ = self._run(inputs, mask, initial_state, training, False)
        if mask is not None:
            output = ops.where(mask[..., None], output, ops.zeros_like(output))
        if not self.return_sequences:
            output = last(output, mask)
        if not self.return_state:
            return output
        return (output, *keras.tree.flatten(tuple(state)))

    def start(self, batch: Any, initial_state: Any = None) -> Any:
        """Returns the initial state, a named tuple.

        Args:
            batch: B, an integer or a tensor.
            initial_state: the states of the controller, or the whole state returned
                with `return_state`, as a structure of tensors; None for an empty
                memory.

        Raises:
            ValueError: if the number or the shapes of the tensors are wrong.
        """
        state = self.cell.start(batch)
        if initial_state is None:
            return state
        known = batch if isinstance(batch, int) else None
        return replace_state(state, self._check_state(initial_state, known))

    def _check_state(self, initial_state: Any, batch: int | None) -> list[Tensor]:
        """Checks the sizes of an initial state, and returns it as a flat list."""
        shapes = [(batch, *shape) for shape, _ in self.cell.state_specs()]
        count = len(state_widths(self.cell.cell, whole=True))
        whose = "the inputs' batch, of "
        return check_states(initial_state, shapes, count, "controller", whose)

    def trace(self, inputs: Any, mask: Any = None) -> Trace:
        """Records the memory at each step, for inspection.

        Args:
            inputs: (B, T, D).
            mask: booleans (B, T); defaults to the mask that the inputs carry.

        Returns:
            NumPy arrays with the axes batch and time first; see `Trace`.
        """
        dtype = self.cell.compute_dtype
        if not hasattr(inputs, "dtype") or isinstance(inputs, np.ndarray):
            inputs = ops.convert_to_tensor(inputs, dtype)
        if not self.built:
            self.build(tuple(inputs.shape))
        mask = kernels.carried_mask(inputs) if mask is None else mask
        mask = masks.check("mask", mask, tuple(inputs.shape[:2]))
        _, _, trace = self._run(inputs, mask, None, False, True)
        return Trace(
            *(None if isinstance(x, tuple) else ops.convert_to_numpy(x) for x in trace)
        )

    def compute_output_spec(
        self, inputs: Tensor, initial_state: Any = None, **arguments: Any
    ) -> Any:
        _check_inputs(inputs.shape)
        if initial_state is not None:
            self._check_state(initial_state, inputs.shape[0])
        batch, steps = inputs.shape[:2]
        width, dtype = self.cell.output_size, self.cell.compute_dtype
        shape = (batch, steps, width) if self.return_sequences else (batch, width)
        output = keras.KerasTensor(shape, dtype)
        if not self.return_state:
            return output
        specs = self.cell.state_specs()
        return output, *(keras.KerasTensor((batch, *s), d) for s, d in specs)

    def compute_output_shape(
        self, inputs_shape: Any, initial_state_shape: Any = None
    ) -> Any:
        inputs = keras.KerasTensor(inputs_shape, self.cell.compute_dtype)
        specs = self.compute_output_spec(inputs)
        return keras.tree.map_structure(lambda x: tuple(x.shape), specs)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask if self.return_sequences else None

    def _run(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        initial_state: Any,
        training: bool | None,
        traced: bool,
    ) -> tuple[Tensor, Any, Any]:
        """Returns the outputs (B, T, V), the last state, and the trace or `()`."""
        cell = self.cell
        if training and self.checkpoint_steps is not None and has_dropout(cell.cell):
            raise ValueError(
                "`checkpoint_steps` computes steps again for their gradients, with "
                "another dropout mask: it must be None while a controller with dropout "
                "trains. Received: "
                f"checkpoint_steps={self.checkpoint_steps!r}, a controller "
                f"{cell.cell.name!r} with dropout, training=True"
            )
        batch, steps = ops.shape(inputs)[:2]
        state = self.start(batch, initial_state)
        inputs = ops.cast(inputs, cell.compute_dtype)
        sequence = {"x": inputs}
        if mask is not None:
            mask = ops.broadcast_to(mask, (batch, steps))
            # Padded steps may contain infinite numbers or NaN.
            zeros = ops.zeros_like(inputs)
            sequence["x"] = ops.where(ops.expand_dims(mask, -1), inputs, zeros)
            sequence["mask"] = mask
        dropout_mask = cell.sample((batch, steps), training)  # before the loop
        step = functools.partial(cell.advance, training=training, traced=traced)
        width = inputs.shape[-1] + cell.read_width
        with sequence_dropout(cell.cell, width, state.cell, training):
            if inputs.shape[1] == 1 and not kernels.is_dynamic(1):  # needs no loop
                state, outputs = step(state, {k: x[:, 0] for k, x in sequence.items()})
                outputs = keras.tree.map_structure(lambda y: y[:, None], outputs)
            else:
                state, outputs = loop.scan(
                    step, state, time_swapped(sequence), self.checkpoint_steps
                )
                outputs = time_swapped(outputs)
        (h, read), trace = outputs
        return cell.read_out(h, read, dropout_mask), state, trace


def _check_inputs(shape: Any) -> None:
    check_shape("inputs", shape, "(batch, steps, width)", known_width=True)
