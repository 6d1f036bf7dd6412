"""A loop over the steps of a DNC's memory on JAX, with an explicit gradient.

The loop is split into segments of about √T steps. It stores M and L only before each
segment, and small tensors before each step. For the gradient, a segment computes its M
and L again, which needs only a multiplication and an addition per element. The
gradients of the controller's weights are computed after the loop; see
`kernels/scan/products_jax.py`.

Shapes: T steps, B batch, M memory slots, W word width, R read heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import keras
from jax import lax
from jax import numpy as jnp

from keras_attention.kernels.keras import is_exporting
from keras_attention.kernels.memory_step import reference
from keras_attention.kernels.memory_step.gradient import step_gradient
from keras_attention.kernels.memory_step.interface import MemoryStep, split_interface
from keras_attention.kernels.memory_step.jax import COMPARED
from keras_attention.kernels.memory_step.reference import MemoryState
from keras_attention.kernels.partitioning.jax import has_devices
from keras_attention.kernels.scan.products_jax import TracedStep

Tensor = Any
State = Any  # a named tuple: the controller's state, r, and the fields of `MemoryState`


class Saved(NamedTuple):
    """What a segment stores for its gradient. Axis 0 are its steps, except in M and L.

    Attributes:
        memory: M before the segment, (B, M, W).
        links: L before the segment, (B, M, M).
        states: the states before each step, without M and L.
        weights: wʷ of each step, which masked steps do not keep in their state.
        residuals: the residuals of each step, without those that need ξ or L.
        maps: z of each affine map of the controller.
    """

    memory: Tensor
    links: Tensor
    states: State
    weights: Tensor
    residuals: Any
    maps: list[Tensor]


def scan(step: MemoryStep, state: State, inputs: Any) -> tuple[State, Any] | None:
    """Runs the loop; see :func:`keras_attention.ops.sequence.loop.scan`.

    Returns:
        The last state and the outputs; None if the step has no explicit gradient, or
        while an export is traced.
    """
    leaves = jax.tree.leaves((state, inputs["x"]))
    if any(isinstance(x, keras.KerasTensor) for x in leaves) or is_exporting():
        return None
    memory = MemoryState(*state[2:])
    floating = all(jnp.issubdtype(x.dtype, jnp.floating) for x in leaves)
    if not floating or not reference.has_written_gradient(step.options, memory):
        return None
    control = TracedStep(step.control, state[0], state[1], inputs["x"][0])
    if not control.is_pure:
        return None
    run = _Loop(step, control, state)

    @jax.custom_vjp
    def loop(constants: Any, state: State, inputs: Any) -> tuple[State, Any]:
        return run.forward(constants, state, inputs)[0]

    loop.defvjp(run.forward, run.backward)
    last, outputs = loop(control.constants, _flat_links(state), inputs)
    return _deep_links(last), (outputs, ())


class _Loop:
    """The loop and its gradient. Links are (B, M, M): there is one write head."""

    def __init__(self, step: MemoryStep, control: TracedStep, state: State) -> None:
        self.step, self.control = step, control
        compare = state.usage.shape[-1] <= COMPARED
        self.options = step.options._replace(compare_slots=compare)

    def forward(self, constants: Any, state: State, inputs: Any) -> tuple[Any, Any]:
        """Returns the last state and the outputs, and what the gradient needs."""
        products = self.control.products(constants)

        def one(state: State, now: Any) -> tuple[State, Any]:
            (h, cell, interface), maps = self.control(
                constants, products, state[0], state[1], now["x"]
            )
            old = MemoryState(*_deep_links(state)[2:])
            read, new, residuals = reference.step(
                interface, old, _mask(now, interface), self.options
            )
            kept: Any = residuals
            kept = kept._replace(interface=(), forward=(), backward=())
            read = read.reshape(state.read.shape).astype(state.read.dtype)
            new_state = _flat_links(type(state)(cell, read, *new))
            if "mask" in now:
                new_state = self.step.untouched(new_state, state, now["mask"])
            small = state._replace(memory=(), links=())
            saved = small, new.write_weights, kept, maps
            return new_state, ((h, new_state.read), saved)

        def segment(state: State, now: Any) -> tuple[State, Any]:
            last, (outputs, saved) = lax.scan(one, state, now)
            return last, (outputs, Saved(state.memory, state.links, *saved))

        outputs, saved = [], []
        for part in _segments(inputs):
            state, (found, kept) = lax.scan(segment, state, part)
            outputs.append(found)
            saved.append(kept)
        return (state, _joined(outputs)), (constants, inputs, state, saved)

    def backward(self, found: Any, slopes: Any) -> tuple[Any, State, Any]:
        """Returns the gradients of the constants, the first state and the inputs."""
        constants, inputs, last, saved = found
        back = [jnp.swapaxes(w, 0, 1) for w, _ in self.control.products(constants)]
        d_state, d_outputs = slopes
        zeros = jax.tree.map(jnp.zeros_like, constants.others)
        carry: Any = d_state, zeros, last
        d_found: list[Any] = []

        def segment(carry: Any, now: Any) -> Any:
            return self._segment(constants, back, carry, *now)

        parts = zip(saved, _segments(inputs), _segments(d_outputs), strict=True)
        for part in reversed(list(parts)):
            carry, of_part = lax.scan(segment, carry, part, reverse=True)
            d_found.insert(0, of_part)
        d_state, d_others, _ = carry
        d_maps, d_x = _joined(d_found)
        states, maps = (
            _joined([getattr(s, n) for s in saved]) for n in ("states", "maps")
        )
        rows = jax.vmap(lambda *now: self.control.inputs(constants, *now))(
            maps, states[0], states[1], inputs["x"]
        )
        d_weights = self.control.gradients(constants, rows, d_maps)
        d_constants = type(constants)(d_others, d_weights, None)
        d_inputs = {name: d_x if name == "x" else None for name in inputs}
        return d_constants, d_state, d_inputs

    def _segment(
        self, constants: Any, back: Any, carry: Any, saved: Saved, now: Any, d_out: Any
    ) -> tuple[Any, Any]:
        """Computes the gradients of a segment.

        Args:
            constants: the constants of the controller.
            back: its transposed weights.
            carry: the gradient of the state after the segment, the sum of the
                gradients of the constants so far, and the state after the segment.
            saved: what the segment stored.
            now: the inputs of its steps.
            d_out: the gradients of the outputs of its steps.
        """
        d_state, d_others, last = carry
        states, w, residuals = saved.states, saved.weights, saved.residuals

        def controller(others: Any, maps: Any, *given: Any) -> Any:
            known = constants._replace(others=others)
            return self.control.again(known, back, maps, *given)

        given = saved.maps, states[0], states[1], now["x"]
        interface = jax.vmap(lambda *x: self.control.again(constants, None, *x)[2])(
            *given
        )
        x = self._split(interface, _mask(now, interface), states, saved.memory)
        residuals = residuals._replace(interface=x)
        psi = residuals.retention
        memories, links = self._states_again(saved, x, psi)

        def one(carry: Any, hot: Any, rest: Any) -> tuple[Any, Any]:
            (d_state, d_others), after = carry
            memory, links, precedence, w, erase, values, free_list = hot
            state, residuals, given, mask, (d_h, d_read) = rest
            old = MemoryState(*state[2:])._replace(
                memory=memory, links=links[:, None], precedence=precedence
            )
            new = MemoryState(after[0], (), w, after[1], (), after[2][:, None])
            residuals = residuals._replace(
                interface=residuals.interface._replace(erase=erase, values=values),
                free_list=free_list,
            )
            d_new = d_state._replace(read=d_state.read + d_read)
            d_kept = None
            if mask is not None:
                choose = jax.vjp(
                    lambda *pair: self.step.untouched(*pair, mask), d_new, d_new
                )[1]
                d_new, d_kept = choose(d_new)
            read = d_new.read.astype(memory.dtype)
            read = read.reshape(*state.read_weights.shape[:2], memory.shape[-1])
            d_interface, d_old = step_gradient(
                old, new, residuals, read, MemoryState(*_deep_links(d_new)[2:]),
                self.options,
            )  # fmt: skip
            pull = jax.vjp(controller, constants.others, *given)[1]
            more, d_maps, d_cell, d_r, d_x = pull((d_h, d_new[0], d_interface))
            d_state = _flat_links(type(d_state)(d_cell, d_r, *d_old))
            if d_kept is not None:
                d_state = jax.tree.map(jnp.add, d_state, d_kept)
            d_others = jax.tree.map(jnp.add, d_others, more)
            after = memory, state.read_weights, links
            return ((d_state, d_others), after), (d_maps, d_x)

        after = last.memory, last.read_weights, last.links
        hot = memories, links, states.precedence, w, x.erase, x.values, (
            residuals.free_list
        )  # fmt: skip
        rest = states, residuals, given, now.get("mask"), d_out
        carry = (d_state, d_others), after
        ((d_state, d_others), _), found = _loaded_ahead(one, carry, hot, rest, True)
        first = last._replace(
            memory=saved.memory,
            links=saved.links,
            read_weights=states.read_weights[0],
        )
        return (d_state, d_others, first), found

    def _split(
        self, interface: Tensor, mask: Tensor | None, states: State, memory: Tensor
    ) -> Any:
        """Splits ξ of all steps of a segment at once."""
        steps, batch = interface.shape[:2]
        sizes = memory.shape[-1], states.read_weights.shape[2], 1

        def split(rows: Tensor, mask: Tensor | None) -> Any:
            return split_interface(rows, sizes, self.options, mask)

        if has_devices():  # of rows (T B, ·), samples split over devices are gathered
            return jax.vmap(split)(interface, mask)
        mask = None if mask is None else mask.reshape(-1, 1)
        x = split(interface.reshape(steps * batch, -1), mask)
        return jax.tree.map(lambda part: part.reshape(steps, batch, *part.shape[1:]), x)

    def _states_again(
        self, saved: Saved, x: Any, retention: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Computes M and L before each step of a segment again."""

        def one(big: Any, hot: Any, rest: Any) -> tuple[Any, Any]:
            (memory, links), (w, precedence, erase, values, psi) = big, hot
            kept = memory
            if self.options.deallocation:
                kept = reference.deallocate(memory, psi)
            new = (
                reference.erase_and_write(kept, w, erase, values),
                reference.write_links(links[:, None], precedence, w)[:, 0],
            )
            return new, big

        hot = saved.weights, saved.states.precedence, x.erase, x.values, retention
        return _loaded_ahead(one, (saved.memory, saved.links), hot, (), False)[1]


def _loaded_ahead(
    step: Callable, carry: Any, hot: Any, rest: Any, reverse: bool
) -> tuple[Any, Any]:
    """Runs `lax.scan` with inputs `hot` that are loaded one step ahead.

    XLA reads an input of a loop inside of each operation that uses it. An operation
    that broadcasts such an input is then not vectorized, and takes up to 9 times as
    long. The carry of a loop has no such disadvantage.

    Args:
        step: maps a carry, `hot` of a step and `rest` of a step to a carry and outputs.
        carry: the first carry.
        hot: a structure of tensors (T, ...).
        rest: as `hot`.
        reverse: whether to start with the last step.
    """
    length = jax.tree.leaves(hot)[0].shape[0]

    def at(i: Any) -> Any:
        return jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, i, 0, False), hot)

    def one(carry: Any, now: Any) -> tuple[Any, Any]:
        (carry, ready), (i, rest) = carry, now
        carry, found = step(carry, ready, rest)
        following = jnp.maximum(i - 1, 0) if reverse else jnp.minimum(i + 1, length - 1)
        return (carry, at(following)), found

    first = carry, at(length - 1 if reverse else 0)
    times = jnp.arange(length)
    (carry, _), found = lax.scan(one, first, (times, rest), reverse=reverse)
    return carry, found


def _segments(tree: Any) -> list[Any]:
    """Cuts tensors (T, ...) to (N, K, ...), and to (1, ·, ...) for the rest."""
    length = jax.tree.leaves(tree)[0].shape[0]
    size = math.isqrt(length)
    whole = length // size * size
    parts = [
        jax.tree.map(lambda x: x[:whole].reshape(-1, size, *x.shape[1:]), tree),
        jax.tree.map(lambda x: x[None, whole:], tree),
    ]
    return parts if whole < length else parts[:1]


def _joined(parts: list[Any]) -> Any:
    """Reverses `_segments`."""
    flat = [jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), part) for part in parts]
    if len(flat) == 1:
        return flat[0]
    return jax.tree.map(lambda *x: jnp.concatenate(x), *flat)


def _mask(now: Any, interface: Tensor) -> Tensor | None:
    """Returns the mask of steps as numbers (..., 1)."""
    return now["mask"][..., None].astype(interface.dtype) if "mask" in now else None


def _flat_links(state: State) -> State:
    return state._replace(links=state.links[:, 0])


def _deep_links(state: State) -> State:
    return state._replace(links=state.links[:, None])
