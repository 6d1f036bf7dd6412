"""The common parts of cells with an external memory: controller, heads and output.

Shapes: B batch, T steps, D input width, U units of the controller, M memory slots, W
word width, R read heads, H write heads, V width of the output.
"""

from __future__ import annotations

import abc
import math
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.cells import (
    as_before,
    as_cell,
    has_dropout,
    packed,
    state_widths,
    width_of,
)
from keras_attention.layers.base.checked import check_real
from keras_attention.layers.base.serialization import Configured, export
from keras_attention.numerics.precision import HALF
from keras_attention.ops.sequence import loop

Tensor = Any


class Trace(NamedTuple):
    """The activity of a memory at one step, (B, ...), or over a sequence, (B, T, ...).

    A field that the cell does not have is None in the trace of a sequence, and `()` in
    the trace of one step. The same holds for `links` if the links are sparse. At a
    padded step, nothing is written or read: weights, gates and modes are 0.

    Attributes:
        memory: M after the step, (B, T, M, W).
        usage: u, the usage of each slot, (B, T, M).
        write_weights: wʷ, the weights of each write head, (B, T, H, M).
        read_weights: wʳ, the weights of each read head, (B, T, R, M).
        links: L, the order in which slots were written, (B, T, H, M, M).
        modes: π, the mode of each read head, (B, T, R, 1 + 2H): backward, content,
            forward.
        free_gates: f, whether the slots read by a head were freed, (B, T, R).
        allocation_gate: gᵃ, whether to write to a free slot, (B, T, H).
        write_gate: gʷ, whether to write at all, (B, T, H).
    """

    memory: Any
    usage: Any = ()
    write_weights: Any = ()
    read_weights: Any = ()
    links: Any = ()
    modes: Any = ()
    free_gates: Any = ()
    allocation_gate: Any = ()
    write_gate: Any = ()


def mask_trace(trace: Trace, state: Any, mask: Tensor) -> Trace:
    """Returns the trace of a step with zeros for padded examples, but for the state."""

    def masked(x: Any) -> Any:
        return x if isinstance(x, tuple) else loop.choose(mask, x, ops.zeros_like(x))

    unchanged = {
        name: getattr(state, name)
        for name in ("memory", "usage", "links")
        if hasattr(state, name)
    }
    return Trace(*map(masked, trace))._replace(**unchanged)


class MemoryCell(Configured, keras.layers.Layer, abc.ABC):
    """Abstract base class of cells in which a Keras cell controls a memory.

    A subclass defines the width of the interface (`interface_width`), the state
    (`state_specs` and `start`) and one step of the memory (`access`). This class calls
    the controller and computes the output:

        h, s = controller([x; r], s)
        ξ    = W_ξ h
        r, … = access(ξ, …)
        y    = W_y [h; r]

    The arguments are described in `DNCCell`.
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
        is_number = isinstance(clip, Real) and not isinstance(clip, bool)
        if clip is not None and not (is_number and clip > 0):
            raise ValueError(
                f"`clip` must be a number above 0, or None. Received: clip={clip!r}"
            )
        self.clip = clip
        self.normalization: Any = None  # a layer that normalizes ξ
        # The dtype of the memory and of all weights.
        is_half = self.compute_dtype in HALF
        self.memory_dtype = "float32" if is_half else self.compute_dtype
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
        """Returns the initial state of B examples, a named tuple."""

    @abc.abstractmethod
    def access(
        self, interface: Tensor, state: Any, mask: Tensor | None, traced: bool
    ) -> tuple[Any, Any]:
        """Computes one step of the memory from ξ (B, ·), in the dtype of the memory.

        Examples with False in the mask (B,) must not write. Returns the new state, in
        which only `cell` is still old, and the trace, or `()` unless `traced`.
        """

    def untouched(self, new: Any, old: Any, mask: Tensor) -> Any:
        """Returns `new` where the mask (B,) is True, and `old` elsewhere.

        Parts of the state that a masked `access` keeps unchanged need no selection.
        """
        return loop.choose(mask, new, old)

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

        `now` is a dict of x (B, D), in the compute dtype, and a `mask` (B,) or None.
        Returns the new state, and a pair of h (B, U) and r (B, R W), of which
        `read_out` computes the outputs of many steps, with the trace, or `()`.
        """
        mask = now.get("mask")
        options = {"training": training} if kernels.takes_training(self.cell) else {}
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
        """Samples the dropout mask of h for all steps, (B, T, U) or (B, U), or None."""
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
        """Computes one step for Keras' RNN; the first state is the last output."""
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
        widths = self.state_size[1:]
        flat = [keras.KerasTensor((batch, n), self.compute_dtype) for n in widths]
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
        flat, widths = keras.tree.flatten(tuple(state)), self.state_size[1:]
        return [
            ops.cast(ops.reshape(x, (-1, n)), self.compute_dtype)
            for x, n in zip(flat, widths, strict=True)
        ]


@export
class WithInputs(Configured, keras.layers.Layer):
    """A cell whose output is followed by its inputs.

    As a controller, it gives the interface and the answers a linear path from the
    inputs and the last read vectors, besides the cell.

    Args:
        cell: a Keras cell.
        width: the width of the inputs.
    """

    def __init__(self, cell: Any, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cell, self.width = cell, width
        self.state_size = cell.state_size
        self.output_size = cell.units + width

    def build(self, input_shape: Any) -> None:
        if not self.cell.built:
            self.cell.build(input_shape)
        self.built = True

    def call(self, inputs: Any, states: Any) -> Any:
        output, states = self.cell(inputs, states)
        return ops.concatenate([output, inputs], axis=-1), states

    def get_initial_state(self, batch_size: Any = None) -> Any:
        return self.cell.get_initial_state(batch_size=batch_size)
