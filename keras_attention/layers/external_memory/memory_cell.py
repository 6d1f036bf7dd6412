"""The common parts of cells with an external memory: controller, heads and output.

Shapes: B batch, T steps, D input width, U units of the controller, M memory slots, W
word width, R read heads, H write heads, V width of the output.
"""

from __future__ import annotations

import abc
import math
from numbers import Real
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.cells import (
    as_before,
    as_cell,
    has_dropout,
    state_widths,
    width_of,
)
from keras_attention.layers.base.checked import check_real
from keras_attention.layers.base.packing import packed
from keras_attention.layers.base.serialization import Configured
from keras_attention.layers.external_memory.trace import Trace, mask_trace

Tensor = Any


class MemoryCell(Configured, keras.layers.Layer, abc.ABC):
    """Abstract base class of cells in which a Keras cell controls a memory.

    A subclass defines the width of the interface (`interface_width`), the state
    (`state_specs` and `start`) and one step of the memory (`access`). This class calls
    the controller and computes the output:

        h, s = controller([x; r], s)
        ξ    = W_ξ h
        r, … = access(ξ, …)
        y    = W_y [h; r]

    Args:
        cell: a Keras cell such as `keras.layers.LSTMCell(units)`, or a list of stacked
            cells.
        memory_slots: M, the number of slots.
        word_width: W, the width of a slot.
        read_heads: R, the number of read heads.
        write_heads: H, the number of write heads.
        output_units: V; None for the output [h; r], of width U + R W.
        clip: the largest absolute value of the controller's output and state, and of y;
            None for no limit.
    """

    float_inputs = ("inputs",)
    input_ranks: ClassVar[Any] = {"inputs": 2}

    def __init__(
        self,
        cell: Any,
        memory_slots: int,
        word_width: int,
        read_heads: int,
        write_heads: int,
        output_units: int | None,
        clip: float | None,
        **kwargs: Any,
    ) -> None:
        # Keras would round the memory to half precision at every step.
        super().__init__(autocast=False, **kwargs)
        self.cell = as_cell(cell)
        if not state_widths(self.cell, whole=True):
            raise ValueError(
                "`cell` must have a state, such as keras.layers.LSTMCell(units) has. "
                f"Received: cell={cell!r} with state_size={self.cell.state_size!r}"
            )
        self.memory_slots = positive("memory_slots", memory_slots)
        self.word_width = positive("word_width", word_width)
        self.read_heads = positive("read_heads", read_heads)
        self.write_heads = positive("write_heads", write_heads)
        self.output_units = None
        if output_units is not None:
            self.output_units = positive("output_units", output_units)
        number = isinstance(clip, Real) and not isinstance(clip, bool)
        if clip is not None and not (number and clip > 0):
            raise ValueError(
                f"`clip` must be a number above 0, or None. Received: clip={clip!r}"
            )
        self.clip = clip
        self.cell_takes_training = kernels.takes_training(self.cell)
        self.normalization: Any = None  # a layer that normalizes ξ
        half = self.compute_dtype in ("float16", "bfloat16")
        # The dtype of the memory and of all weights.
        self.memory_dtype = "float32" if half else self.compute_dtype
        self.units = width_of(self.cell)
        self.read_width = self.read_heads * self.word_width  # R W

    def make_layers(self) -> None:
        """Creates the two dense layers. `interface_width` must be known."""
        dense, policy = keras.layers.Dense, self.dtype_policy
        self.interface = dense(self.interface_width, dtype=policy, name="interface")
        self.output_layer = None
        if self.output_units is not None:
            self.output_layer = dense(self.output_units, dtype=policy, name="output")

    @property
    @abc.abstractmethod
    def interface_width(self) -> int:
        """The width of ξ."""

    @property
    def output_size(self) -> int:
        """V, the width of the output."""
        return self.output_units or self.units + self.read_width

    @property
    def state_size(self) -> list[int]:
        """The widths of the flat states: the last output, then `state_specs`."""
        return [self.output_size] + [math.prod(s) for s, _ in self.state_specs()]

    def state_specs(self) -> list[tuple[tuple[int, ...], str]]:
        """Returns the flat state's shapes, without the batch axis, and its dtypes."""
        widths = state_widths(self.cell, whole=True)
        return [((n,), self.compute_dtype) for n in (*widths, self.read_width)]

    @abc.abstractmethod
    def start(self, batch: Any) -> Any:
        """Returns the initial state, a named tuple.

        Args:
            batch: B, an integer or a tensor.
        """

    @abc.abstractmethod
    def access(
        self, interface: Tensor, state: Any, mask: Tensor | None, traced: bool
    ) -> tuple[Any, Any]:
        """Computes one step of the memory.

        Args:
            interface: ξ, (B, ·), in the dtype of the memory.
            state: the state from `start` or the previous step.
            mask: booleans (B,). Examples with False must not write.
            traced: whether to return the trace.

        Returns:
            The new state, in which only `cell` is still old, and the trace. With
            `traced=False`, the trace may be `()`.
        """

    @abc.abstractmethod
    def untouched(self, new: Any, old: Any, mask: Tensor) -> Any:
        """Returns `new` where the mask (B,) is True, and `old` elsewhere.

        Parts of the state that a masked `access` keeps unchanged need no selection.
        """

    def build(self, input_shape: Any) -> None:
        batch, width = input_shape[0], input_shape[-1]
        if not self.cell.built:
            self.cell.build((batch, width + self.read_width))
            self.cell.built = True
        self.interface.build((batch, self.units))
        if self.output_layer is not None:
            self.output_layer.build((batch, self.units + self.read_width))
        self.built = True

    def step(
        self,
        inputs: Tensor,
        state: Any,
        training: bool | None = None,
        dropout_mask: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Any, Trace]:
        """Computes one step. Use it inside another layer, after this cell is built.

        Args:
            inputs: x, (B, D).
            state: the state from `start` or the previous step.
            training: the training mode of the controller.
            dropout_mask: the result of `sample` for this step.
            mask: booleans (B,). The state of examples with False does not change.

        Returns:
            The output (B, V), the state, and the trace of the memory.
        """
        now = {"x": ops.cast(inputs, self.compute_dtype), "mask": mask}
        state, ((h, read), trace) = self.advance(state, now, training, traced=True)
        return self.read_out(h, read, dropout_mask), state, trace

    def advance(
        self,
        state: Any,
        now: dict[str, Any],
        training: bool | None = None,
        traced: bool = False,
    ) -> tuple[Any, Any]:
        """Computes a step without the output projection, as the body of a loop.

        `read_out` then computes the outputs of many steps at once.

        Args:
            state: the state from `start` or the previous step.
            now: a dict of x (B, D), in the compute dtype, and, optionally, `mask`:
                booleans (B,), or None.
            training: the training mode of the controller.
            traced: whether to return the trace.

        Returns:
            The new state; and a pair of h (B, U) and r (B, R W), for `read_out`, with
            the trace, or `()`.
        """
        mask = now.get("mask")
        options = {"training": training} if self.cell_takes_training else {}
        x = ops.concatenate([now["x"], state.read], axis=-1)  # (B, D + R W)
        h, cell = self.cell(x, state.cell, **options)
        cell = as_before(cell, state.cell)
        if self.clip is not None:
            h, cell = keras.tree.map_structure(
                lambda y: ops.clip(y, -self.clip, self.clip), (h, cell)
            )
        interface = self.interface(h)
        interface = ops.cast(interface, self.memory_dtype)  # ξ
        if self.normalization is not None:
            interface = self.normalization(interface)
        new, trace = self.access(interface, state, mask, traced)  # M, r, …
        new = new._replace(cell=cell, read=ops.cast(new.read, state.read.dtype))
        if mask is not None:
            new = self.untouched(new, state, mask)
            if traced:
                trace = mask_trace(trace, new, mask)
        return new, ((h, new.read), trace if traced else ())

    def sample(self, shape: tuple[Any, ...], training: bool | None) -> Tensor | None:
        """Samples the dropout mask of h for all steps, before the loop.

        Args:
            shape: (B, T), or (B,) for one step.
            training: whether to apply dropout.

        Returns:
            The factors (..., U) of h, or None without dropout.
        """
        return None

    def read_out(
        self, h: Tensor, read: Tensor, dropout_mask: Tensor | None = None
    ) -> Tensor:
        """Returns y = W_y [h; r], (..., V), for h (..., U) and `read`, r (..., R W)."""
        if dropout_mask is not None:
            h = h * ops.cast(dropout_mask, h.dtype)
        output = ops.concatenate([ops.cast(h, read.dtype), read], axis=-1)
        if self.output_layer is not None:
            output = self.output_layer(output)
        if self.clip is not None:
            output = ops.clip(output, -self.clip, self.clip)
        return output

    def get_initial_state(self, batch_size: Any) -> list[Tensor]:
        """Returns the initial flat states (B, ·) for `keras.layers.RNN`."""
        output = ops.zeros((batch_size, self.output_size), self.compute_dtype)
        return [output, *self._flat(self.start(batch_size))]

    def call(
        self, inputs: Tensor, states: list[Tensor], training: bool | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Computes one step for Keras' RNN; the first state is the last output.

        Keras' RNN keeps the whole state in the compute dtype, which may be half
        precision.
        """
        if training and self.has_dropout():
            raise ValueError(
                f"Dropout in a {type(self).__name__}, or in its controller, must be "
                "sampled before the loop, which keras.layers.RNN cannot do: use "
                "keras_attention.layers.DNC(cell). Received: training=True"
            )
        self._check_states(inputs, states)
        specs = self.state_specs()
        if self.memory_dtype != self.compute_dtype and any(
            d == "int32" for _, d in specs
        ):
            raise ValueError(
                "The indices of sparse links are no numbers for half precision, in "
                "which keras.layers.RNN keeps all states: use "
                "keras_attention.layers.DNC(cell). "
                f"Received: dtype={self.compute_dtype}"
            )
        shapes = [(-1, *shape) for shape, _ in specs]
        flat = [ops.reshape(x, s) for x, s in zip(states[1:], shapes, strict=True)]
        state = packed(self.start(1), flat)
        now = {"x": ops.cast(inputs, self.compute_dtype)}
        state, ((h, read), _) = self.advance(state, now, training)
        output = self.read_out(h, read)
        return output, [output, *self._flat(state)]

    def _check_states(self, inputs: Tensor, states: list[Tensor]) -> None:
        """Raises a ValueError if the flat states are not those of this cell."""
        check_real({f"states[{n}]": x for n, x in enumerate(states)})
        batch, sizes = inputs.shape[0], self.state_size
        shapes = [tuple(getattr(x, "shape", ())) for x in states]
        fits = len(shapes) == len(sizes) and all(
            len(shape) == 2
            and shape[1] in (None, width)
            and (None in (batch, shape[0]) or shape[0] == batch)
            for shape, width in zip(shapes, sizes)
        )
        if not fits:
            raise ValueError(
                f"`states` must have shapes (batch, width) with the widths {sizes} and "
                f"the batch of `inputs`. Received: inputs.shape={tuple(inputs.shape)}, "
                f"shapes of states={shapes}"
            )

    def has_dropout(self) -> bool:
        """Returns whether the cell is random in training."""
        return has_dropout(self.cell)

    def compute_output_spec(self, inputs: Tensor, states: Any, **options: Any) -> Any:
        batch = inputs.shape[0]
        output = keras.KerasTensor((batch, self.output_size), self.compute_dtype)
        specs = self.state_specs()
        flat = [
            keras.KerasTensor((batch, math.prod(s)), self.compute_dtype)
            for s, _ in specs
        ]
        return output, [output, *flat]

    def save_own_variables(self, store: Any) -> None:
        store["heads"] = self._heads()

    def load_own_variables(self, store: Any) -> None:
        saved = [int(n) for n in store["heads"]]
        if saved != self._heads():
            names = "read_heads, write_heads and word_width"
            raise ValueError(
                f"The weights belong to a cell with other heads: `{names}` must be "
                f"{saved}; the number of memory slots may differ. "
                f"Received: {self._heads()}"
            )

    def _heads(self) -> list[int]:
        return [self.read_heads, self.write_heads, self.word_width]

    def _flat(self, state: Any) -> list[Tensor]:
        """Returns a state as tensors (B, ·) in the compute dtype, as in Keras' RNN."""
        widths = [math.prod(shape) for shape, _ in self.state_specs()]
        flat = [
            ops.reshape(x, (-1, n))
            for x, n in zip(keras.tree.flatten(tuple(state)), widths, strict=True)
        ]
        return [ops.cast(x, self.compute_dtype) for x in flat]
