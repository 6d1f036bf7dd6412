"""Kernels on JAX that keep tensors split over devices.

XLA partitions single operations, but not a loop over samples or heads: it gathers the
inputs of the loop, and each device computes all samples. :func:`partitioned` names the
axes along which a function is independent, or a sum. Each device then calls the
function with its own part, forward and backward. With one device, the function is
called directly, and the program does not change.

In this folder, *named axes* are a tuple with one name per axis of a tensor. An axis
without a name, None, is not split.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.custom_batching import custom_vmap
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Tensor = Any
Tensors = tuple[Tensor, ...]
Axes = tuple[str | None, ...]


class Layout(NamedTuple):
    """The named axes of the arguments and of the results of a function."""

    inputs: tuple[Axes, ...]
    outputs: tuple[Axes, ...]

    @property
    def names(self) -> list[str]:
        """The names of all split axes of the arguments."""
        names = itertools.chain.from_iterable(self.inputs)
        return list(dict.fromkeys(name for name in names if name))

    @property
    def rule(self) -> tuple[str, tuple[str, ...]]:
        """Shardy's rule, and the names in it of the axes that are not split."""
        whole: list[str] = []

        def named(name: str | None) -> str:
            if name is None:
                whole.append(f"whole{len(whole)}")
            return name or whole[-1]

        sides = (
            ", ".join(" ".join(named(name) for name in axes) for axes in side)
            for side in (self.inputs, self.outputs)
        )
        return " -> ".join(sides), tuple(whole)


def has_devices() -> bool:
    """Returns whether a tensor can be split, because there are several devices."""
    return jax.device_count() > 1


def partitioned(
    function: Callable[..., Tensors],
    inputs: Sequence[Axes],
    outputs: Sequence[Axes],
) -> Callable[..., Tensors]:
    """Returns a function that each device computes for its own part.

    Gradients of any order and `jax.vmap` work, but not `jax.jvp`. Each call of
    `partitioned` compiles a new function outside of `jax.jit`, so keep its result.

    Args:
        function: maps tensors to a tuple of tensors. An output that lacks a named axis
            of the inputs must be a sum over this axis.
        inputs: the named axes of each argument. The axes of one name have one size.
        outputs: the named axes of each result.
    """
    if not has_devices():
        return function
    return _partitioned(function, Layout(tuple(inputs), tuple(outputs)))


def _partitioned(function: Callable[..., Tensors], layout: Layout) -> Callable:
    # Only the inner function may hold constants, such as an array of NumPy.
    by_parts = custom_partitioning(jax.jit(function))
    rule, whole = layout.rule
    by_parts.def_partition(
        partial(_partition, function, layout),
        decode_shardings=False,
        sharding_rule=rule,
        need_replication_factors=whole,
    )
    mapped = custom_vmap(by_parts)
    with_new_axis = cache(partial(_with_new_axis, function, layout))
    gradient_of = cache(partial(_gradient, function, layout))

    @mapped.def_vmap
    def vmap_rule(size: int, batched: list[bool], *args: Tensor) -> tuple[Any, Any]:
        over = with_new_axis(tuple(batched))
        return over(*args), (True,) * len(layout.outputs)

    def backward(args: Tensors, slopes: Tensors) -> Tensors:
        smooth = tuple(jnp.issubdtype(x.dtype, jnp.inexact) for x in args)
        sloped = tuple(slope.dtype != jax.dtypes.float0 for slope in slopes)
        slopes = tuple(itertools.compress(slopes, sloped))
        gradients = iter(gradient_of(smooth, sloped)(*args, *slopes))
        return tuple(next(gradients) if is_smooth else None for is_smooth in smooth)

    differentiable = jax.custom_vjp(mapped)
    differentiable.defvjp(lambda *args: (differentiable(*args), args), backward)
    return jax.jit(differentiable)


def _with_new_axis(
    function: Callable[..., Tensors], layout: Layout, batched: tuple[bool, ...]
) -> Callable:
    """Returns `jax.vmap` of the function. The new axis 0 can be split, too."""
    new = f"new{len(layout.names)}"
    inputs = [
        (new, *axes) if is_new else axes
        for axes, is_new in zip(layout.inputs, batched, strict=True)
    ]
    outputs = [(new, *axes) for axes in layout.outputs]
    over = jax.vmap(function, in_axes=[0 if is_new else None for is_new in batched])
    return _partitioned(over, Layout(tuple(inputs), tuple(outputs)))


def _gradient(
    function: Callable[..., Tensors],
    layout: Layout,
    smooth: tuple[bool, ...],
    sloped: tuple[bool, ...],
) -> Callable:
    """Returns the gradient of a function, from its arguments and some of its slopes.

    `smooth` says which arguments have a gradient, `sloped` which results.
    """

    def gradient(*tensors: Tensor) -> Tensors:
        args, slopes = tensors[: len(smooth)], tensors[len(smooth) :]

        def of_numbers(*numbers: Tensor) -> Tensors:
            left = iter(numbers)
            pairs = zip(args, smooth)
            mixed = (next(left) if is_smooth else x for x, is_smooth in pairs)
            results = function(*mixed)
            return tuple(itertools.compress(results, sloped))

        numbers = itertools.compress(args, smooth)
        return jax.vjp(of_numbers, *numbers)[1](tuple(slopes))

    inputs = (*layout.inputs, *itertools.compress(layout.outputs, sloped))
    outputs = tuple(itertools.compress(layout.inputs, smooth))
    return _partitioned(gradient, Layout(inputs, outputs))


def _partition(
    function: Callable[..., Tensors],
    layout: Layout,
    mesh: Mesh,
    args: Any,
    results: Any,
) -> tuple[Mesh, Callable, Any, Any]:
    """Returns what a device computes, and how results and arguments are split."""
    tensors = *args, *results
    mesh = _fine_mesh(mesh, tensors[0])
    split = _split_axes(layout, mesh, tensors)
    summed = [
        tuple(x for name in layout.names if name not in axes for x in split[name])
        for axes in layout.outputs
    ]

    def part(*args: Tensor) -> Tensors:
        pairs = zip(function(*args), summed, strict=True)
        return tuple(_sum(x, over) for x, over in pairs)

    def shardings(named: tuple[Axes, ...]) -> tuple[NamedSharding, ...]:
        specs = (PartitionSpec(*(split.get(name) for name in axes)) for axes in named)
        return tuple(NamedSharding(mesh, spec) for spec in specs)

    return mesh, part, shardings(layout.outputs), shardings(layout.inputs)


def _fine_mesh(mesh: Mesh, x: Any) -> Mesh:
    """Returns a mesh whose axes have prime sizes.

    If 8 heads in 2 groups are split over 8 devices, an axis of 8 devices becomes an
    axis of 2 for the groups and two axes of 2 for the heads of a group.
    """
    devices = list(x.sharding.devices_indices_map(_divisible(x)))
    sizes = mesh.devices.shape if mesh.size == len(devices) else (len(devices),)
    primes = [prime for size in sizes for prime in _prime_factors(size)]
    names = tuple(f"part{i}" for i in range(len(primes)))
    return Mesh(np.array(devices, object).reshape(primes), names)


def _prime_factors(number: int) -> list[int]:
    for prime in range(2, math.isqrt(number) + 1):
        if number % prime == 0:
            return [prime, *_prime_factors(number // prime)]
    return [number] if number > 1 else []


def _split_axes(
    layout: Layout, mesh: Mesh, tensors: Sequence[Any]
) -> dict[str | None, tuple[str, ...]]:
    """Returns the mesh axes over which each named axis is split.

    A name takes the mesh axes of the first tensor that splits it, without those that
    another name has taken, and if they divide its size.
    """
    split: dict[str | None, tuple[str, ...]] = dict.fromkeys(layout.names, ())
    taken: set[str] = set()
    for axes, x in zip((*layout.inputs, *layout.outputs), tensors, strict=True):
        for name, size, over in zip(axes, x.shape, _spec(mesh, x), strict=True):
            parts = math.prod(mesh.shape[axis] for axis in over)
            if name and not split[name] and taken.isdisjoint(over) and not size % parts:
                split[name] = over
                taken.update(over)
    return split


def _spec(mesh: Mesh, x: Any) -> list[tuple[str, ...]]:
    """Returns the mesh axes over which each axis of a tensor is split.

    They are read from the first index of each device. A tensor that is split in
    another way than over mesh axes counts as whole.
    """
    shape = _divisible(x)
    indices = x.sharding.devices_indices_map(shape)
    starts = np.array(
        [[part.start or 0 for part in index] for index in indices.values()]
    )
    starts = starts.reshape(*mesh.devices.shape, len(x.shape))
    origin = (0,) * len(mesh.axis_names)
    spec: list[tuple[str, ...]] = []
    for axis in range(len(x.shape)):
        steps = {}
        for i, name in enumerate(mesh.axis_names):
            second = (*origin[:i], 1, *origin[i + 1 :])
            steps[name] = starts[second][axis] - starts[origin][axis]
        over = sorted((n for n in steps if steps[n]), key=lambda n: -steps[n])
        spec.append(tuple(over))
    same = NamedSharding(mesh, PartitionSpec(*spec)).devices_indices_map(shape)
    return spec if same == indices else [()] * len(spec)


def _divisible(x: Any) -> tuple[int, ...]:
    """Returns a shape of the same rank that can be split in each way.

    Between operations, XLA splits axes whose sizes the devices do not divide, too.
    """
    return (len(x.sharding.device_set),) * len(x.shape)


def _sum(x: Tensor, over: tuple[str, ...]) -> Tensor:
    """Adds up the parts of all devices; half precision in float32."""
    if not over:
        return x
    wide = x.astype(jnp.promote_types(x.dtype, "float32"))
    return lax.psum(wide, over).astype(x.dtype)
