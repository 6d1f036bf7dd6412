"""The patterns of an associative memory, on one device or split over several."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.checked import Checked
from keras_attention.models.base.configured_model import PortableCompilation
from keras_attention.models.hopfield import arguments as check
from keras_attention.models.hopfield.steps import as_numpy
from keras_attention.ops.hopfield import streaming

Tensor = Any


class StoredPatterns(PortableCompilation, Checked, keras.Model):
    """Stores patterns in a table. Abstract: subclasses retrieve them."""

    kind: str
    chunk_size: int
    _count: int
    _table: Tensor  # (P, D), the patterns, followed by zeros; None if there are none
    _split: tuple  # the mesh and the axis over which the table is split, or ()

    def __len__(self) -> int:
        """Returns the number of stored patterns."""
        return self._count

    def __bool__(self) -> bool:
        return True  # an empty memory is truthy, too

    @property
    def patterns(self) -> Tensor:
        """The stored patterns, (S, D), in the order of storing; (0, 0) if empty."""
        if not self._count:
            return ops.zeros((0, 0), self.variable_dtype)
        return self._table[: self._count]

    def distribute(self, device_mesh: Any, axis: str = "model") -> None:
        """Splits the patterns over devices, on JAX.

        Each of n devices holds 1/n of the patterns, also of those that are stored
        later. In a step of `retrieve`, each device reads its own patterns, and the
        results are combined. They are equal up to rounding, for every normalizer.
        "sparsemax" and "entmax15" find their threshold from sums over all devices.

        `energy` and `metastable_size` gather the scores of a block of states where
        they sort them. `patterns`, `pattern_separation` and a compiled model that
        contains the memory need all patterns on each device. A saved memory does not
        contain the mesh.

        Args:
            device_mesh: a `keras.distribution.DeviceMesh` or a `jax.sharding.Mesh`.
                None moves all patterns back to one device.
            axis: the axis of the mesh over which the patterns are split. The devices
                along other axes hold copies.

        Raises:
            RuntimeError: if the backend is not JAX, or JAX has no `jax.shard_map`.
            ValueError: if the mesh is no mesh, lacks the axis or has devices of
                another process, or if the memory is binary. An error moves nothing.
        """
        split: tuple = ()
        if device_mesh is not None:
            kernels.axis_sizes(device_mesh, axis, "`distribute`")
            if not kernels.is_local(device_mesh):
                raise ValueError(
                    "`device_mesh` must have devices of this process only. "
                    f"Received: device_mesh={device_mesh!r}"
                )
            if self.kind != "modern":
                raise ValueError(
                    "`kind` must be 'modern' to split the patterns: in a binary "
                    "memory, the rows of zeros that pad a device would change sums. "
                    f"Received: kind={self.kind!r}"
                )
            split = device_mesh, axis
        stored = self._on_host() if self._count else None
        self._split = split
        if stored is not None:
            self._fill(stored)

    def save_own_variables(self, store: Any) -> None:
        store["patterns"] = self._on_host()

    def load_own_variables(self, store: Any) -> None:
        self.forget()
        patterns = np.asarray(store["patterns"])
        if len(patterns):
            self._fill(self._checked(patterns))

    def _checked(self, patterns: Any) -> np.ndarray:
        """Checks new patterns (S, D) and returns them in the storage dtype."""
        new = check.table(patterns, self._table.shape[-1] if self._count else None)
        dtype = self.variable_dtype
        with np.errstate(over="ignore"):  # reported below
            array = check.finite("patterns", ops.cast(new, dtype), dtype)
        check.neurons("patterns", array, self.kind)
        return array

    def _fill(self, patterns: np.ndarray) -> None:
        """Rebuilds the table from `patterns` (S, D) only."""
        count = len(patterns)
        size, devices = count, 1
        if self._split:
            devices = kernels.axis_sizes(*self._split, "`distribute`")[self._split[1]]
        if self.kind == "modern":
            size = devices * streaming.table_size(-(-count // devices), self.chunk_size)
        padded = np.pad(patterns, ((0, size - count), (0, 0)))
        if self._split:
            typed = padded.astype(keras.backend.standardize_dtype(self.variable_dtype))
            self._set_table(kernels.to_mesh(typed, *self._split), count)
        else:
            table = ops.convert_to_tensor(padded, self.variable_dtype)
            self._set_table(table, count)

    def _on_host(self) -> np.ndarray:
        """Returns the stored patterns (S, D) in the memory of the host."""
        if not self._count:
            return np.zeros((0, 0), "float32")
        return as_numpy(self._table)[: self._count]

    def _set_table(self, table: Tensor, count: int) -> None:
        self._table, self._count = table, count
        # Compiled functions hold the previous patterns as constants.
        self.train_function = self.test_function = self.predict_function = None

    def _stored(self) -> Tensor:
        if not self._count:
            raise ValueError(
                "The memory is empty. `store` patterns first. Received: len(memory)=0"
            )
        return self.patterns
