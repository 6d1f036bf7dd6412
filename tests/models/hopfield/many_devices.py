"""Retrieves from memories that are split over eight devices, and prints JSON.

`test_many_devices.py` starts this file once.
"""

import json
import os
import pathlib
import re
import sys
import tempfile

os.environ["KERAS_BACKEND"] = "jax"
os.environ["XLA_FLAGS"] = (
    f"--xla_force_host_platform_device_count=8 {os.environ.get('XLA_FLAGS', '')}"
)
sys.path.append(str(pathlib.Path(__file__).parents[2]))

import jax
import keras
import numpy as np
import references

from keras_attention.models import AssociativeMemory
from keras_attention.ops import streaming
from speed.devices import retrieval

S, D, CHUNK = 301, 6, 16
CASES = (
    *(("softmax", "dot"), ("softmax", "distance"), ("softmax1", "distance")),
    *(("softmax1", "cosine"), ("hardmax", "distance"), ("hardmax", "dot")),
    *(("sparsemax", "dot"), ("sparsemax", "distance"), ("entmax15", "cosine")),
)
random = np.random.default_rng(0)


def mesh_of(*shape):
    names = ("batch", "model")[-len(shape) :]
    return keras.distribution.DeviceMesh(shape, names)


def normal(rows, far=0.0):
    return (far + random.normal(size=(rows, D))).astype("float32")


def wanted(states, patterns, normalizer, similarity, beta, steps):
    """The states after some steps, in float64."""
    states, x = states.astype("float64"), patterns.astype("float64")
    if similarity == "cosine":
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    for _ in range(steps):
        if similarity == "cosine":
            states = states / np.linalg.norm(states, axis=1, keepdims=True)
        z = states @ x.T
        if similarity == "distance":
            z = -((states[:, None] - x) ** 2).sum(-1) / 2
        p = references.NORMALIZERS[normalizer](beta * z)
        old, states = states, p @ x
        if similarity == "distance":
            states = states + (1 - p.sum(-1, keepdims=True)) * old
    if similarity == "cosine":
        states = states / np.linalg.norm(states, axis=1, keepdims=True)
    return states


def memory_of(patterns, mesh, **options):
    memory = AssociativeMemory(**{"chunk_size": CHUNK, "beta": 0.5, **options})
    memory.distribute(mesh)
    if len(patterns):
        memory.store(patterns)
    return memory


def error(found, right):
    found, right = (np.asarray(x, "float64") for x in (found, right))
    return float(np.abs(found - right).max() / max(1.0, np.abs(right).max()))


def gathered(memory, queries):
    """The shapes that a step gathers."""
    given = np.ones(len(queries), bool), memory._stored
    program = jax.jit(memory._equations.step).lower(queries, *given).compile()
    return re.findall(r"= (\S+) all-gather(?:-start)?\(", program.as_text())


def compare(normalizer, similarity, count=S, mesh=None):
    patterns, queries = normal(count, far=2.0), normal(5, far=2.0)
    given = {"normalizer": normalizer, "similarity": similarity}
    memory = memory_of(patterns, mesh or mesh_of(8), **given)
    found = memory.retrieve(queries, steps=3)
    return {
        "error": error(found, wanted(queries, patterns, *given.values(), 0.5, 3)),
        "gathered": gathered(memory, queries),
        "held": [x.data.shape[0] / count for x in memory._table.addressable_shards],
        "patterns": error(memory.patterns, patterns),
    }


def operations():
    """What else a memory does, against the same memory on one device."""
    patterns, queries = normal(S), normal(5)
    one, many = (memory_of(patterns, mesh) for mesh in (None, mesh_of(8)))
    found = {}
    results, ways = zip(
        *(m.retrieve(queries, return_trajectory=True) for m in (one, many))
    )
    found["until at rest"] = error(*reversed(results))
    found["energies"] = error(ways[1].energies, ways[0].energies)
    for name in ("energy", "metastable_size"):
        found[name] = error(*(getattr(m, name)(queries) for m in (many, one)))
    for name in ("pattern_separation", "retrieval_error_bound"):
        found[name] = error(*(getattr(m, name)() for m in (many, one)))
    committed = jax.device_put(queries, jax.devices()[3])
    found["queries of a device"] = error(many.retrieve(committed), results[0])
    found["half precision"] = error(
        *(
            memory_of(patterns, mesh, dtype="bfloat16").retrieve(queries, steps=2)
            for mesh in (mesh_of(8), None)
        )
    )
    inputs = keras.Input((D,))
    found["in a model"] = error(
        keras.Model(inputs, many(inputs)).predict(queries, verbose=0), results[0]
    )
    for memory in (one, many):
        memory.store(2 * queries)
        memory.forget([0, 7, S])
    found["stored and forgotten"] = error(*(m.retrieve(queries) for m in (many, one)))
    held = many._table.addressable_shards[0].data.shape[0]
    found["still split"] = 0.0 if held == len(many._table) / 8 else 1.0
    with tempfile.TemporaryDirectory() as folder:
        many.save(f"{folder}/memory.keras")
        loaded = keras.saving.load_model(f"{folder}/memory.keras")
    found["file"] = error(loaded.patterns, one.patterns)
    loaded.distribute(mesh_of(2, 4))
    found["file, split"] = error(loaded.retrieve(queries), one.retrieve(queries))
    many.distribute(None)
    found["moved back"] = error(many.retrieve(queries), one.retrieve(queries))
    found["one device"] = float(len(many._table.devices()) - 1)
    return found


def errors():
    """Of each wrong call, its error; the memory must work afterwards."""
    patterns, queries = normal(20), normal(2)
    memory = memory_of(patterns, mesh_of(8))
    signs = AssociativeMemory("exponential")
    signs.store(np.sign(patterns))
    before = memory.retrieve(queries)
    odd = np.zeros((12, D), "float32")
    calls = {
        "axis": lambda: memory.distribute(mesh_of(8), "rows"),
        "mesh": lambda: memory.distribute((8,)),
        "binary": lambda: signs.distribute(mesh_of(8)),
        "rows": lambda: streaming.streamed_update(
            queries, odd, 12, device_mesh=mesh_of(8)
        ),
    }
    found = {}
    for name, call in calls.items():
        try:
            call()
        except ValueError as raised:
            found[name] = " ".join(str(raised).split())
    found["after"] = error(memory.retrieve(queries), before)
    found["binary, after"] = error(signs.patterns, np.sign(patterns))
    return found


def main():
    found = {f"{n}, {s}": compare(n, s) for n, s in CASES}
    found["few"] = compare("softmax", "distance", count=9)  # six devices hold none
    found["few, hardmax"] = compare("hardmax", "dot", count=9)
    found["grid"] = compare("softmax", "dot", mesh=mesh_of(2, 4))
    found["grid, sparsemax"] = compare("sparsemax", "dot", mesh=mesh_of(2, 4))
    table = np.pad(normal(40), ((0, 24), (0, 0)))
    queries = normal(3)
    update = streaming.streamed_update(
        queries, table, 40, 0.5, device_mesh=mesh_of(8), axis="model"
    )
    right = wanted(queries, table[:40], "softmax", "dot", 0.5, 1)
    found["operation"] = error(update, right)
    found["operations"] = operations()
    found["errors"] = errors()
    found["parts"] = [
        sum(retrieval.memory_of_a_step(name, "dot", mesh).values())
        for name in ("softmax", "sparsemax")
        for mesh in (mesh_of(8), None)
    ]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
