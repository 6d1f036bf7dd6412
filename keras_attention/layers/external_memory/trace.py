"""What an external memory did at each step.

Shapes: B batch, T steps, M memory slots, W word width, R read heads, H write heads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from keras_attention.ops.sequence import loop

Tensor = Any


class Trace(NamedTuple):
    """What a memory did: of one step tensors (B, ...), of a sequence (B, T, ...).

    A field is None where the cell has no such thing, and for sparse links, which are
    not unfolded; in the trace of one step it is `()`. Nothing is written or read at a
    padded step: its weights, gates and modes are 0.

    Attributes:
        memory: M after the step, (B, T, M, W).
        usage: u, how far each slot is in use, (B, T, M).
        write_weights: wʷ, where each head wrote, (B, T, H, M).
        read_weights: wʳ, where each head read, (B, T, R, M).
        links: L, which slot was written after which, (B, T, H, M, M).
        modes: π, how each head read, (B, T, R, 1 + 2H): backward, content, forward.
        free_gates: f, whether what a head had read was freed, (B, T, R).
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
    """The trace of one step in which padded examples have done nothing.

    Args:
        trace: of the step.
        state: the state after it, in which padded examples are as they were.
        mask: booleans (B,).
    """

    def masked(x: Any) -> Any:
        return x if isinstance(x, tuple) else loop.choose(mask, x, ops.zeros_like(x))

    kept = {"memory": state.memory}
    kept |= {k: getattr(state, k) for k in ("usage", "links") if hasattr(state, k)}
    return Trace(*map(masked, trace))._replace(**kept)
