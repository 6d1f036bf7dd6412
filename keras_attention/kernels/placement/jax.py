"""Placement of tensors on the devices of a mesh on JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import keras
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Tensor = Any
SPLITS_TENSORS = True


def check_distribution() -> None:
    """Accepts: `keras.distribution` splits weights on JAX."""


def place(variable: Any, layout: Any) -> None:
    """Moves a variable to a `TensorLayout`, and keeps it there when it is assigned to.

    Keras reads the layout of a variable only when it creates the variable. Optimizers
    copy this attribute to the variables that belong to a weight. It has no public name.
    """
    variable._layout = layout
    variable.assign(variable.value)


def bytes_held(variable: Any) -> int:
    """Returns the most bytes of a variable that a device of this process holds."""
    return max(shard.data.nbytes for shard in variable.value.addressable_shards)


def jax_mesh(mesh: Any, operation: str) -> Mesh:
    """Returns a mesh of Keras or JAX, which `operation` needs, as a mesh of JAX."""
    if not hasattr(jax, "shard_map"):
        raise RuntimeError(
            f"{operation} needs `jax.shard_map`. Received: jax {jax.__version__}"
        )
    if isinstance(mesh, keras.distribution.DeviceMesh):
        return mesh.backend_mesh
    if not isinstance(mesh, Mesh):
        raise ValueError(
            "`device_mesh` must be a keras.distribution.DeviceMesh or a "
            f"jax.sharding.Mesh. Received: device_mesh={mesh!r}"
        )
    return mesh


def axis_sizes(mesh: Any, axis: str, operation: str) -> dict[str, int]:
    """Returns the size of each axis of a mesh, and checks that it has an axis."""
    sizes = dict(jax_mesh(mesh, operation).shape)
    if axis not in sizes:
        raise ValueError(
            "`axis` must be an axis of `device_mesh`. "
            f"Received: axis={axis!r}, device_mesh with the axes {list(sizes)}"
        )
    return sizes


def is_local(mesh: Any) -> bool:
    """Returns whether all devices of a mesh belong to this process."""
    devices = jax_mesh(mesh, "A mesh").devices.flat
    return all(device.process_index == jax.process_index() for device in devices)


def to_mesh(x: Any, mesh: Any, *axes: str | None) -> Tensor:
    """Moves a tensor to the devices of a mesh, unless it is already there.

    The first axes of x are split over the `axes` of the mesh. NumPy arrays go to their
    devices directly, and no device holds all of an array that is split.
    """
    if isinstance(x, jax.core.Tracer):
        return x
    mesh = jax_mesh(mesh, "A mesh")
    if isinstance(x, jax.Array) and x.sharding.device_set == {*mesh.devices.flat}:
        return x
    return jax.device_put(x, NamedSharding(mesh, PartitionSpec(*axes)))


def on_rows(
    function: Callable[..., Any],
    table: Tensor,
    count: Any,
    tensors: tuple[Tensor, ...],
    mesh: Any,
    axis: str,
) -> Any:
    """Calls a function on each of n devices, with its rows of a table (P, D).

    The function maps rows (P/n, D), the number of these rows that are among the first
    `count` of the table, and `tensors`, which each device gets whole, to tensors.

    Returns:
        What the function returns on each device, (n, ...), split along axis 0.
    """
    mesh = jax_mesh(mesh, "A mesh")
    size = table.shape[0] // mesh.shape[axis]

    def part(rows: Tensor, count: Tensor, *tensors: Tensor) -> Any:
        here = jnp.clip(count - jax.lax.axis_index(axis) * size, 0, size)
        return jax.tree.map(lambda x: x[None], function(rows, here, *tensors))

    split, whole = PartitionSpec(axis), PartitionSpec()
    each = jax.shard_map(
        part,
        mesh=mesh,
        in_specs=(split, whole, *[whole] * len(tensors)),
        out_specs=split,
        axis_names={axis},
        check_vma=False,
    )
    tensors = tuple(to_mesh(x, mesh) for x in tensors)
    return each(to_mesh(table, mesh, axis), jnp.asarray(count, "int32"), *tensors)
