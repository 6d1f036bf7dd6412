"""Compares ring attention over eight devices with NumPy, and prints JSON.

`test_ring.py` starts this file once.
"""

import json
import os
import re
import sys

os.environ["KERAS_BACKEND"] = "jax"
os.environ["XLA_FLAGS"] = (
    f"--xla_force_host_platform_device_count=8 {os.environ.get('XLA_FLAGS', '')}"
)

import jax
import keras
import numpy as np
from jax import numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from keras_attention import ops
from keras_attention.kernels.ring_attention import jax as ring

random = np.random.default_rng(0)


def mesh_of(*shape):
    names = ("batch", "sequence")[-len(shape) :]
    devices = keras.distribution.list_devices()[: int(np.prod(shape))]
    return keras.distribution.DeviceMesh(shape, names, devices)


def attention(q, k, v, slope, mask=None, is_causal=False, chunk=512):
    """The output and the gradients for `slope`, in float64, without a ring."""
    q, k, v, slope = (np.asarray(x, "float64") for x in (q, k, v, slope))
    shared = q.shape[2] // k.shape[2]
    scale = q.shape[-1] ** -0.5
    keys, values = (np.repeat(x, shared, 2) for x in (k, v))
    output, dq = np.zeros(slope.shape), np.zeros(q.shape)
    dk, dv = np.zeros(keys.shape), np.zeros(values.shape)
    causal = np.tri(q.shape[1], k.shape[1], dtype=bool)
    for start in range(0, q.shape[1], chunk):
        rows = slice(start, start + chunk)
        scores = np.einsum("bthe,bshe->bhts", q[:, rows], keys, optimize=True) * scale
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        if mask is not None:
            weights *= np.asarray(mask)[:, None, None]
        if is_causal:
            weights *= causal[rows]
        total = weights.sum(-1, keepdims=True)
        weights /= np.where(total, total, 1)
        output[:, rows] = np.einsum("bhts,bshv->bthv", weights, values, optimize=True)
        ds = np.einsum("bthv,bshv->bhts", slope[:, rows], values, optimize=True)
        ds -= (weights * ds).sum(-1, keepdims=True)
        ds *= weights * scale
        dq[:, rows] = np.einsum("bhts,bshe->bthe", ds, keys, optimize=True)
        dk += np.einsum("bhts,bthe->bshe", ds, q[:, rows], optimize=True)
        dv += np.einsum("bhts,bthv->bshv", weights, slope[:, rows], optimize=True)
    dk, dv = (x.reshape(*k.shape[:3], shared, -1).sum(3) for x in (dk, dv))
    return output, dq, dk, dv


def output(mesh, mask=None, is_causal=False):
    """Ring attention, or attention on one device where the mesh is None."""
    if mesh is None:
        return ops.dot_product_attention
    options = {"mask": mask, "is_causal": is_causal}
    return lambda *given: ops.ring_attention(*given, mesh, **options)


def with_gradient(*options):
    def both(q, k, v, slope):
        found, pull = jax.vjp(output(*options), q, k, v)
        return found, *pull(slope)

    return jax.jit(both)


def inputs(batch, queries, keys, heads=1, groups=1, width=4, dtype="float32"):
    shapes = (queries, heads, width), (keys, groups, width), (keys, groups, width + 1)
    shapes = *shapes, (queries, heads, width + 1)
    return [jnp.asarray(random.normal(size=(batch, *s)), dtype) for s in shapes]


def error(found, wanted):
    found = np.asarray(found, "float64")
    return float(np.abs(found - wanted).max() / max(1.0, np.abs(wanted).max()))


def compare(given, mesh, mask=None, is_causal=False):
    found = with_gradient(mesh, mask, is_causal)(*given)
    wanted = attention(*given, mask, is_causal)
    return {
        "errors": [error(*pair) for pair in zip(found, wanted, strict=True)],
        "split": [x.sharding.spec[1] == "sequence" for x in found],
    }


def memory(program):
    """The bytes of a device: its part of inputs and results, and what is temporary."""
    found = program.memory_analysis()
    kinds = "argument", "output", "temp"
    return sum(getattr(found, f"{kind}_size_in_bytes") for kind in kinds)


def sizes(mesh, length):
    """The memory of a device, in parts of what attention on one device needs."""
    place = NamedSharding(mesh.backend_mesh, PartitionSpec(None, "sequence"))
    shape = 1, length, 2, 32
    found = {}
    for name, count in ("forward", 3), ("gradient", 4):
        programs = []
        for over in mesh, None:
            sharding = place if over else None
            x = jax.ShapeDtypeStruct(shape, "float32", sharding=sharding)
            function = with_gradient(over) if count == 4 else output(over)
            programs.append(jax.jit(function).lower(*[x] * count).compile())
        ring, one = map(memory, programs)
        found[name] = ring / one
        found[f"{name} gathers"] = gathers(programs[0])
    return found


def gathers(program):
    return len(re.findall("all-gather", program.as_text()))


def batches(mesh):
    """Whether a batch that is split over another axis stays split."""
    place = NamedSharding(mesh.backend_mesh, PartitionSpec("batch", "sequence"))
    given = [jax.device_put(x, place) for x in inputs(4, 32, 32, 2)]
    program = with_gradient(mesh).lower(*given).compile()
    return {**compare(given, mesh), "gathers": gathers(program)}


def main():
    mesh = mesh_of(8)
    chunk, ring.CHUNK = ring.CHUNK, 8  # so that short sequences are cut, too
    mask = random.random((2, 48)) < 0.5
    mask[0] = False
    small = inputs(2, 80, 48, heads=4, groups=2)
    found = {
        "keys": compare(small, mesh),
        "masked": compare(small, mesh, mask),
        "causal": compare(small, mesh, is_causal=True),
        "causal, masked": compare(small, mesh, mask, True),
        "large scores": compare([100 * small[0], *small[1:]], mesh),
        "bfloat16": compare(
            inputs(2, 80, 48, 4, 2, dtype="bfloat16"), mesh, mask, True
        ),
        "batch, too": batches(mesh_of(2, 4)),
    }
    eager = ops.ring_attention(*small[:3], mesh, mask=mask)
    found["zeros"] = not np.asarray(eager[0]).any() and np.asarray(eager[1]).all()
    slopes = with_gradient(mesh, mask)(*small)[1:]
    found["zero gradients"] = not any(np.asarray(x[0]).any() for x in slopes)
    odd = [x[:, :12] for x in small]
    try:
        output(mesh)(*odd[:3])
    except ValueError as raised:
        found["odd length"] = str(raised)
    ring.CHUNK = chunk
    found["8,192"] = compare(inputs(1, 8192, 8192), mesh, is_causal=True)
    found["sizes"] = sizes(mesh, 8192)
    json.dump(found, sys.stdout, default=bool)


if __name__ == "__main__":
    main()
