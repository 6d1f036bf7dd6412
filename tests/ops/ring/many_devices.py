"""Compares ring attention over eight devices with NumPy, and prints JSON.

`test_ring.py` starts this file once.
"""

import json
import os
import re
import sys

os.environ["KERAS_BACKEND"] = "jax"
os.environ["XLA_FLAGS"] = (
    "--xla_force_host_platform_device_count=8 "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_backend_optimization_level=0 "
    "--xla_cpu_use_fusion_emitters=false"
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


def attention(q, k, v, slope, mask=None, is_causal=False):
    """The output and the gradients for `slope`, in float64, without a ring."""
    q, k, v, slope = (np.asarray(x, "float64") for x in (q, k, v, slope))
    shared = q.shape[2] // k.shape[2]
    scale = q.shape[-1] ** -0.5
    keys, values = (np.repeat(x, shared, 2) for x in (k, v))
    scores = np.einsum("bthe,bshe->bhts", q, keys) * scale
    allowed = np.ones(scores.shape, bool)
    if mask is not None:
        allowed &= np.asarray(mask)[:, None, None]
    if is_causal:
        allowed &= np.tri(*scores.shape[-2:], dtype=bool)
    weights = np.exp(scores - scores.max(-1, keepdims=True)) * allowed
    total = weights.sum(-1, keepdims=True)
    weights /= np.where(total, total, 1)
    output = np.einsum("bhts,bshv->bthv", weights, values)
    through = np.einsum("bthv,bshv->bhts", slope, values)
    through -= (weights * through).sum(-1, keepdims=True)
    through *= weights * scale

    def summed(x):  # over the heads that share keys
        return x.reshape(*k.shape[:3], shared, -1).sum(3)

    dq = np.einsum("bhts,bshe->bthe", through, keys)
    dk = summed(np.einsum("bhts,bthe->bshe", through, q))
    dv = summed(np.einsum("bhts,bthv->bshv", weights, slope))
    return output, dq, dk, dv


def with_gradient(mesh, mask=None, is_causal=False):
    def both(q, k, v, slope):
        def output(*given):
            options = {"mask": mask, "is_causal": is_causal}
            return ops.ring_attention(*given, mesh, **options)

        found, pull = jax.vjp(output, q, k, v)
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
    return sum(
        getattr(found, f"{kind}_size_in_bytes") for kind in ("argument", "output", "temp")
    )


def sizes(length):
    """Memory over 8 devices in parts of the memory of one, and what is gathered."""
    x = [jax.ShapeDtypeStruct((1, length, 2, 32), "float32")] * 4
    found = {}
    for devices in 1, 8:
        mesh = mesh_of(devices)
        place = NamedSharding(mesh.backend_mesh, PartitionSpec(None, "sequence"))
        for name, function, given in (
            ("gradient", with_gradient(mesh), x),
            ("forward", lambda *a: ops.ring_attention(*a, mesh), x[:3]),  # noqa: B023
        ):
            shapes = [jax.ShapeDtypeStruct(y.shape, y.dtype, sharding=place) for y in given]
            program = jax.jit(function).lower(*shapes).compile()
            found[name, devices] = memory(program)
            gathered = re.findall(r"all-gather", program.as_text())
            assert not gathered, gathered
    return {
        name: found[name, 8] / found[name, 1] for name in ("forward", "gradient")
    } | {"bytes": list(found.values())}


def batches(mesh):
    """Whether a batch that is split over another axis stays split."""
    place = NamedSharding(mesh.backend_mesh, PartitionSpec("batch", "sequence"))
    given = [jax.device_put(x, place) for x in inputs(4, 32, 32, 2)]
    program = with_gradient(mesh).lower(*given).compile()
    gathered = re.findall(r"all-gather", program.as_text())
    return {**compare(given, mesh), "gathered": len(gathered)}


def main():
    mesh = mesh_of(8)
    ring.CHUNK = 8  # so that short sequences are cut, too
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
    ring.CHUNK = 128
    found["8,192"] = compare(inputs(1, 8192, 8192), mesh, is_causal=True)
    found["sizes"] = sizes(8192)
    json.dump(found, sys.stdout, default=bool)


if __name__ == "__main__":
    main()
