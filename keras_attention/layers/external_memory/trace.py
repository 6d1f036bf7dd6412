"""The trace of an external memory.

Shapes: B batch, T steps, M memory slots, W word width, R read heads, H write heads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

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
    """Returns the trace of one step with zeros for padded examples.

    Args:
        trace: the trace of the step.
        state: the state after the step, not changed for padded examples.
        mask: booleans (B,).
    """

    def masked(x: Any) -> Any:
        return x if isinstance(x, tuple) else loop.choose(mask, x, ops.zeros_like(x))

    unchanged = {
        name: getattr(state, name)
        for name in ("memory", "usage", "links")
        if hasattr(state, name)
    }
    return Trace(*map(masked, trace))._replace(**unchanged)
