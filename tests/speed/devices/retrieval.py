"""Retrieval from a memory whose patterns are split over eight virtual devices."""

from __future__ import annotations

from typing import Any

import jax
import keras
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from keras_attention.models import AssociativeMemory
from keras_attention.models.hopfield.steps import Equations, block_size
from keras_attention.ops.hopfield import energy, streaming

PATTERNS, WIDTH, QUERIES, STEPS = 10**6, 64, 16, 3
BETA = {"dot": 0.2, "cosine": 20.0, "distance": 0.2}  # several patterns per query


def mesh_of_all() -> keras.distribution.DeviceMesh:
    """Returns a mesh of all devices with one axis."""
    devices = keras.distribution.list_devices()
    return keras.distribution.DeviceMesh((len(devices),), ("model",), devices)


def retrieved(
    memory: AssociativeMemory, queries: np.ndarray, mesh: Any, patterns: np.ndarray
) -> np.ndarray:
    """Returns the states after `STEPS` steps, with the patterns on a mesh."""
    memory.distribute(mesh)
    memory.store(patterns)
    found = np.asarray(memory.retrieve(queries, steps=STEPS))
    memory.forget()
    return found


def difference(normalizer: str, similarity: str, count: int = PATTERNS) -> float:
    """Returns the largest difference of states from those on one device.

    It is relative to the largest value, if this is above 1.
    """
    rng = np.random.default_rng(0)
    patterns = rng.normal(size=(count, WIDTH)).astype("float32")
    queries = patterns[:: count // QUERIES][:QUERIES]
    queries = queries + 0.7 * rng.normal(size=queries.shape).astype("float32")
    memory = AssociativeMemory(
        beta=BETA[similarity], normalizer=normalizer, similarity=similarity
    )
    one, many = (
        retrieved(memory, queries, mesh, patterns) for mesh in (None, mesh_of_all())
    )
    return float(np.abs(many - one).max() / max(1.0, np.abs(one).max()))


def memory_of_a_step(
    normalizer: str, similarity: str, mesh: Any, count: int = PATTERNS
) -> dict[str, int]:
    """Returns the bytes that a compiled step needs on a device.

    They are the device's part of the patterns, the states, and what is temporary, such
    as scores.
    """
    equations = Equations("modern", normalizer, similarity, 3, "asynchronous", 2048)
    devices, split = 1, None
    if mesh is not None:
        devices = mesh.devices.size
        equations = equations._replace(mesh=mesh)
        split = NamedSharding(mesh.backend_mesh, PartitionSpec("model"))
    rows = devices * streaming.table_size(-(-count // devices), equations.chunk)
    size = block_size(QUERIES, rows, equations.streams)
    states = jax.ShapeDtypeStruct((size, WIDTH), "float32")
    moving = jax.ShapeDtypeStruct((size,), "bool")
    table = jax.ShapeDtypeStruct((rows, WIDTH), "float32", sharding=split)
    compiled = (
        jax.jit(equations.step).lower(states, moving, (table, count, 0.2)).compile()
    )
    found = compiled.memory_analysis()
    kinds = "argument", "output", "temp"
    return {kind: getattr(found, f"{kind}_size_in_bytes") for kind in kinds}


def compare() -> dict[str, dict[str, float]]:
    """Returns the differences and the parts of the memory."""
    results = {}
    for normalizer in energy.NORMALIZERS:
        for similarity in energy.SIMILARITIES:
            one, many = (
                sum(memory_of_a_step(normalizer, similarity, mesh).values())
                for mesh in (None, mesh_of_all())
            )
            results[f"{normalizer}, {similarity}"] = {
                "difference": difference(normalizer, similarity),
                "bytes": one,
                "a device": many,
                "part": many / one,
            }
    return results
