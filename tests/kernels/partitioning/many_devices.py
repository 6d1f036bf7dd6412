"""Compares programs on eight devices with programs on one, and prints JSON.

`test_many_devices.py` starts this file once, with the names of the cases. It reports
for each case and for the function and its gradient: the largest errors, the operations
that gather, whether the results are split as the inputs, and the temporary memory of a
device. Only the cases of `SIZES` are large enough to compare memory. They are only
compiled.
"""

import json
import os
import re
import sys
from functools import partial
from unittest import mock

os.environ["KERAS_BACKEND"] = "jax"
os.environ["XLA_FLAGS"] = (
    f"--xla_force_host_platform_device_count=8 {os.environ.get('XLA_FLAGS', '')}"
)

import jax
import keras
import numpy as np
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from keras_attention import kernels, layers
from keras_attention import ops as attention_ops
from keras_attention.kernels.additive import jax as additive_jax
from keras_attention.kernels.attention import jax as attention_jax
from keras_attention.kernels.attention import tiles
from keras_attention.kernels.memory_step import jax as memory_jax
from keras_attention.kernels.memory_step import reference
from keras_attention.kernels.memory_step.reference import MemoryState, interface_widths
from keras_attention.kernels.sparse_links import jax as links_jax

KEPT = (
    *(additive_jax._tiles_of_parts, additive_jax._one_query_of_parts),
    *(links_jax._fade_of_parts, links_jax._follow_of_parts),
    *(attention_jax._kernel_of_part, memory_jax._step_of_part),
)
B, T, H, E = 8, 192, 8, 4
BATCH, HEADS = PartitionSpec("all"), PartitionSpec(None, None, "all")
QUERIES, WHOLE = PartitionSpec(None, "all"), PartitionSpec()
random = np.random.default_rng(0)


class Seed:
    """A seed generator that draws the same seed each time."""

    def next(self):
        return jax.random.PRNGKey(3)


def normal(*shape, dtype="float32"):
    return jnp.asarray(random.normal(size=shape), dtype)


def dropout(query, key, value, mask, bias):
    options = mask, E**-0.5, True, bias, 0.2, Seed()
    return kernels.dropout_attention(query, key, value, *options)


def masked(batch=B, length=T):
    mask = random.random((batch, 1, 1, length)) < 0.7
    mask[0] = False
    return jnp.asarray(mask)


def slots(groups, links, number):
    return jnp.asarray(random.integers(0, number, (groups, links, number)), "int32")


def sharp(*shape):
    """Links of which most are 0."""
    values = random.random(shape) * (random.random(shape) < 0.02)
    return jnp.asarray(values, "float32")


def layer(made, x, **more):
    """A layer as a function of its input and its weights."""
    made(x, **more)
    variables = made.trainable_variables
    other = [(v, v.value) for v in made.non_trainable_variables]

    def call(x, *weights):
        state = [*zip(variables, weights, strict=True), *other]
        with keras.StatelessScope(state_mapping=state):
            return made(x, **more)

    weights = [v.value for v in variables]
    return call, [x, *weights], [BATCH] + [WHOLE] * len(weights)


def filled_memory(dnc):
    """A first state without equal usages, whose order would depend on rounding."""
    state = dnc.start(B)
    usage = jnp.abs(normal(*state.usage.shape)) / 4
    return keras.tree.flatten(
        state._replace(memory=normal(*state.memory.shape), usage=usage)
    )


def memory_step():
    """A step in Keras operations that holds constants, and its arguments."""
    options = reference.GRAVES._replace(sharp_links=True)

    def step(interface, *old):
        read, memory, _ = kernels.access_memory(
            interface, MemoryState(*old), None, options
        )
        return jax.tree.leaves((read, memory))

    slots = 5
    widths = interface_widths(3, 2, 1, options)
    links = jnp.abs(normal(B, 1, slots, slots)) * (1 - np.eye(slots)) / 20
    weights = [jnp.abs(normal(B, n, slots)) / 20 for n in (1, 2, 1)]
    usage = jnp.abs(normal(B, slots)) / 4
    state = normal(B, slots, 3), usage, *weights, links.astype("float32")
    return step, [normal(B, sum(widths)), *state], [BATCH] * 7


def score(query, key, scale):
    return kernels.additive(query, key, scale, False)


def one_score(query, key, scale):
    return score(query, kernels.precompute_key(key), scale)


def biased(query, key, value, bias):
    return attention_ops.dot_product_attention(query, key, value, bias=bias)


def cut(*given):
    """Attention of 6 samples, which 8 devices do not divide."""
    return attention_ops.dot_product_attention(*(x[:6] for x in given))


def cases():
    """Yields names, functions, arguments and how the arguments are split."""
    attend = attention_ops.dot_product_attention
    x = [normal(B, T, H, E) for _ in range(3)]
    grouped = [x[0], normal(B, T, 2, E), normal(B, T, 2, E)]
    bias = normal(1, H, T, T)
    yield "attention", attend, [*x, masked()], [BATCH] * 4
    causal = partial(attend, is_causal=True)
    yield "attention, heads", causal, x, [HEADS] * 3
    yield "attention, heads of groups", attend, grouped, [HEADS, WHOLE, WHOLE]
    yield "attention, queries", attend, x, [QUERIES, WHOLE, WHOLE]
    yield "attention, dropout", dropout, [*x, masked(), bias], [BATCH] * 4 + [WHOLE]
    half = [y.astype("bfloat16") for y in (*x, bias)]
    yield "attention, bfloat16", biased, half, [BATCH] * 3 + [WHOLE]
    mapped = jax.vmap(attend, in_axes=(0, None, 1))
    several = [normal(8, 2, T, 2, E), normal(2, T, 2, E), normal(2, 8, T, 2, E)]
    yield "attention, vmap", mapped, several, [BATCH, WHOLE, QUERIES]
    grid = PartitionSpec("data", None, "model")
    yield "attention, batch and heads", attend, x, [grid] * 3
    yield "attention, odd batch", cut, x, [BATCH] * 3
    window = partial(attend, sliding_window=5)
    far = [normal(B, 4 * T, H, E) for _ in range(3)]
    yield "window", window, [*far, masked(B, 4 * T)], [BATCH] * 4
    yield "window, heads", partial(window, is_causal=True), far, [HEADS] * 3
    rows = normal(B, 32, 16), normal(B, 32, 16), normal(16)
    yield "additive", score, [*rows], [BATCH, BATCH, WHOLE]
    yield (
        "additive, one query",
        one_score,
        [rows[0][:, :1], *rows[1:]],
        [BATCH, BATCH, WHOLE],
    )
    links, at = sharp(16, 3, 1030), slots(16, 3, 1030)
    weights = jnp.abs(normal(16, 1030)) / 1030
    yield "links, fade", kernels.fade_links, [links, at, weights], [BATCH] * 3
    reads = jnp.abs(normal(16, 1030, 2)) / 1030
    yield "links, follow", kernels.follow_links, [links, at, reads], [BATCH] * 3
    yield "memory step, sharp links", *memory_step()
    patterns = layers.HopfieldLayer(num_patterns=64, num_heads=2)
    yield "Hopfield layer", *layer(patterns, normal(B, 32, 8))
    for name, kind, steps in ("DNC", True, 4), ("DNC, sparse links", 3, 2):
        cell = layers.DNCCell(keras.layers.LSTMCell(8), 12, 4, 2, links=kind)
        dnc = layers.DNC(cell, return_sequences=True)
        seen = jnp.asarray(random.random((B, steps)) < 0.8)
        more = {"mask": seen, "initial_state": filled_memory(dnc)}
        yield name, *layer(dnc, normal(B, steps, 6), **more)


def large(name):
    """Arguments as shapes, as many samples or heads as make fixed costs small."""
    batch, length, spec = SIZES[name]
    x = jax.ShapeDtypeStruct((batch, length, 8, 64), "float32")
    return attention_ops.dot_product_attention, [x] * 3, [spec] * 3


SIZES = {
    "1,024 queries": (64, 1024, BATCH),
    "4,096 queries, heads": (8, 4096, HEADS),
}


def with_gradient(function, differentiable):
    """The results of a function, and the gradients of a sum of them."""

    def both(*args):
        def loss(numbers):
            left = iter(numbers)
            given = [next(left) if ok else x for x, ok in zip(args, differentiable)]
            found = jax.tree.leaves(function(*given))
            return sum(jnp.sum(jnp.sin(y.astype("float32"))) for y in found), found

        numbers = [x for x, ok in zip(args, differentiable) if ok]
        return jax.grad(loss, has_aux=True)(numbers)

    return both


def sharding_of(spec):
    devices = np.array(jax.devices())
    if "model" in spec:
        return NamedSharding(Mesh(devices.reshape(2, 4), ("data", "model")), spec)
    return NamedSharding(Mesh(devices, ("all",)), spec)


def compiled(function, args, shardings):
    """A program for these shardings, which holds no function of another case."""
    differentiable = [jnp.issubdtype(x.dtype, jnp.floating) for x in args]
    both = with_gradient(function, differentiable)
    return jax.jit(both, in_shardings=tuple(shardings)).lower(*args).compile()


def on_one_device(function, args):
    """The program of a process that sees one device only."""
    with mock.patch.object(jax, "device_count", return_value=1):
        for kept in KEPT:
            kept.cache_clear()
        one = [SingleDeviceSharding(jax.devices()[0])] * len(args)
        program = compiled(function, args, one)
    for kept in KEPT:
        kept.cache_clear()
    return program


def error(found, wanted):
    found, wanted = (np.asarray(x, "float64") for x in (found, wanted))
    return float(np.abs(found - wanted).max() / max(1.0, np.abs(wanted).max()))


def compare(function, args, specs):
    """What the report has to say of a case."""
    shardings = [sharding_of(spec) for spec in specs]
    program = compiled(function, args, shardings)
    placed = [jax.device_put(x, s) for x, s in zip(args, shardings)]
    slopes, results = program(*placed)
    wanted, correct = on_one_device(function, args)(*args)
    numbers = [i for i, x in enumerate(args) if jnp.issubdtype(x.dtype, jnp.floating)]
    return {
        "error": [error(*pair) for pair in zip(results, correct, strict=True)],
        "gradients": [error(*pair) for pair in zip(slopes, wanted, strict=True)],
        "gathered": gathered(program),
        "split": [not x.sharding.is_fully_replicated for x in results],
        "as_inputs": [
            x.sharding.is_equivalent_to(shardings[i], x.ndim)
            for i, x in zip(numbers, slopes, strict=True)
        ],
    }


def gathered(program):
    return re.findall(r"= (\S+) all-gather(?:-start)?\(", program.as_text())


def memory(program):
    return program.memory_analysis().temp_size_in_bytes


def main():
    keras.utils.set_random_seed(0)
    tiles.LEAST = 2**8  # so that short sequences are computed in tiles
    wanted = sys.argv[1:]
    found = {name: compare(*case) for name, *case in cases() if name in wanted}
    for name in SIZES.keys() & wanted:
        function, args, specs = large(name)
        many = compiled(function, args, [sharding_of(spec) for spec in specs])
        found[name] = {
            "gathered": gathered(many),
            "eighth": memory(on_one_device(function, args)) / 8,
            "each": memory(many),
        }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
