"""The loop over a memory on JAX against JAX's own loop over the reference step."""

from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import references
from calling import few_compiled

from keras_attention import kernels
from keras_attention.kernels.memory_step import interface as parts
from keras_attention.kernels.memory_step import reference
from keras_attention.kernels.memory_step.reference import MemoryState
from keras_attention.ops.sequence import loop

pytestmark = pytest.mark.backends("jax", reason="its loop has a gradient of its own")

if keras.config.backend() != "jax":
    pytest.skip("the loop is JAX's", allow_module_level=True)

import jax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

B, D, U, M, W, R = 3, 4, 6, 7, 5, 2
OPTIONS = {
    "plain": reference.GRAVES,
    "masked": reference.GRAVES._replace(masked_keys=True),
    "deallocating": reference.GRAVES._replace(deallocation=True),
    "both": reference.GRAVES._replace(masked_keys=True, deallocation=True),
    "epsilon": reference.GRAVES._replace(epsilon=0.05),
}


class State(NamedTuple):
    cell: Any
    read: Any
    memory: Any
    usage: Any
    write_weights: Any
    read_weights: Any
    precedence: Any
    links: Any


def numbers(options, steps):
    """Weights, a state and inputs."""
    x = np.random.default_rng(5)
    spread = partial(references.spread, x)
    width = sum(parts.interface_widths(W, R, 1, options))

    def normal(*shape, scale=1.0):
        return scale * x.normal(size=shape)

    weights = {
        "kernel": normal(D + R * W, U, scale=0.3),
        "recurrent": normal(U, U, scale=0.3),
        "bias": normal(U),
        "gain": normal(U),  # not only in an affine map
        "interface": normal(U, width),
        "shift": normal(B, width),  # a bias for each example
    }
    state = State(
        [normal(B, U)], normal(B, R * W), normal(B, M, W), x.random((B, M)),
        spread(B, 1, M) / 2, spread(B, R, M), spread(B, 1, M) / 2,
        spread(B, 1, M, M) * (1 - np.eye(M)) / 2,
    )  # fmt: skip
    return weights, state, normal(steps, B, D)


def memory_step(weights, options):
    """A step with a small controller; some of its maps share their result."""

    def control(cell, read, x):
        joined = jnp.concatenate([x, read], axis=1)
        both = joined @ weights["kernel"] + cell[0] @ weights["recurrent"]
        h = jnp.tanh(both + weights["bias"]) * jnp.tanh(weights["gain"])
        h = h + 0.1 * (cell[0] @ weights["recurrent"])  # used a second time
        return h, [h], h @ weights["interface"] + weights["shift"]

    def untouched(new, old, mask):
        names = ["cell", "read", "usage", "write_weights", "read_weights"]
        chosen = {n: loop.choose(mask, getattr(new, n), getattr(old, n)) for n in names}
        return new._replace(**chosen)

    def step(state, now):
        h, cell, interface = control(state.cell, state.read, now["x"])
        mask = now["mask"][:, None].astype(h.dtype) if "mask" in now else None
        read, memory = reference.access_memory(
            interface, MemoryState(*state[2:]), mask, options
        )
        new = State(cell, read.reshape(state.read.shape), *memory)
        if mask is not None:
            new = untouched(new, state, now["mask"])
        return new, ((h, new.read), ())

    return kernels.MemoryStep(step, control, untouched, options)


def total(run, options, mask=None):
    """Σ along · (all results of a loop), as a function of weights, state and inputs."""

    def score(weights, state, x):
        now = {"x": x} if mask is None else {"x": x, "mask": mask}
        found = jax.tree.leaves(run(memory_step(weights, options), state, now))
        along = references.normals(*(y.shape for y in found))
        return sum(jnp.sum(jnp.asarray(a, y.dtype) * y) for a, y in zip(along, found))

    return score


def plain(step, state, inputs):
    return jax.lax.scan(step.step, state, inputs)


def ours(step, state, inputs):
    """Runs the loop, without the function of the whole step."""

    def refused(*arguments):
        raise AssertionError("the plain loop took over")

    parted = kernels.MemoryStep(refused, step.control, step.untouched, step.options)
    return kernels.scan(parted, state, inputs)


def assert_close(found, wanted, tolerance):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        one, other = np.asarray(one, "float64"), np.asarray(other, "float64")
        assert np.abs(other).max() > 0
        np.testing.assert_allclose(
            one / np.abs(other).max(), other / np.abs(other).max(), atol=tolerance
        )


@few_compiled(
    ("steps", "name", "padded"),
    [
        (7, "both", True),
        (4, "plain", False),
        *((7, name, True) for name in OPTIONS if name != "both"),
        (1, "plain", False),
        (7, "both", False),
    ],
    2,
)
def test_the_loop_and_its_gradients_in_float64(steps, name, padded):
    options = OPTIONS[name]
    with jax.enable_x64(True):
        given = jax.tree.map(jnp.asarray, numbers(options, steps))
        mask = None
        if padded:
            mask = jnp.arange(steps)[:, None] % 3 != jnp.arange(B)[None]
        found, wanted = (
            jax.jit(jax.value_and_grad(total(run, options, mask), argnums=(0, 1, 2)))(
                *given
            )
            for run in (ours, plain)
        )
        assert_close(found, wanted, 1e-9)


@pytest.mark.release
def test_weights_alone_are_differentiated_in_a_segment_that_is_computed_again():
    options = OPTIONS["plain"]
    given = jax.tree.map(lambda x: jnp.asarray(x, "float32"), numbers(options, 6))

    def cut(x):
        return jax.tree.map(lambda y: y.reshape(2, 3, *y.shape[1:]), x)

    def segments(step, state, inputs):
        state, outputs = kernels.segments(step, state, cut(inputs))
        return state, jax.tree.map(lambda y: y.reshape(6, *y.shape[2:]), outputs)

    found, wanted = (jax.grad(total(run, options))(*given) for run in (segments, plain))
    assert_close(found, wanted, 1e-4)


@pytest.mark.release  # test_access.py differentiates a step twice
def test_gradients_of_gradients():
    options = OPTIONS["plain"]
    given = jax.tree.map(lambda x: jnp.asarray(x, "float32"), numbers(options, 4))

    def slope(run):
        def score(*x):
            slopes = jax.grad(total(run, options), argnums=(0, 2))(*x)
            return sum(jnp.sum(jnp.sin(y)) for y in jax.tree.leaves(slopes))

        return jax.jit(jax.grad(score, argnums=(0, 2)))(*given)

    assert_close(slope(ours), slope(plain), 1e-3)


@pytest.mark.release
def test_a_mapped_loop():
    """`jax.vmap` over states and inputs."""
    options = OPTIONS["plain"]
    weights, state, x = jax.tree.map(
        lambda x: jnp.asarray(x, "float32"), numbers(options, 4)
    )
    state, x = jax.tree.map(lambda y: jnp.stack([y, 0.5 * y]), (state, x))

    def slopes(run):
        slope = jax.grad(total(run, options), argnums=(0, 1, 2))
        return jax.jit(jax.vmap(slope, in_axes=(None, 0, 0)))(weights, state, x)

    assert_close(slopes(ours), slopes(plain), 1e-4)


class Twice(keras.layers.Layer):
    """A cell with weights that are used in a linear layer, and in another way."""

    state_size = output_size = U

    def build(self, shape):
        width = shape[-1] + U
        self.first = self.add_weight(shape=(width, U))
        self.second = self.add_weight(shape=(U, U))
        self.bias = self.add_weight(shape=(1, U), initializer="ones")

    def call(self, inputs, states, training=None):
        joined = keras.ops.concatenate([inputs, states[0]], -1)
        h = keras.ops.tanh(keras.ops.matmul(joined, self.first))
        h = keras.ops.matmul(h, self.second)
        h = keras.ops.tanh(h + self.bias) * self.bias
        stacked = keras.ops.stack([h, 2 * h], 1)  # (B, 2, U)
        h = keras.ops.sum(keras.ops.matmul(stacked, self.second), 1)
        return h, [h]


@few_compiled(
    ("controller", "dtype", "tolerance"),
    [
        (keras.layers.LSTMCell, "mixed_bfloat16", 0.05),  # the memory is float32
        (lambda units, dtype: Twice(dtype=dtype), "float32", 1e-4),
        (partial(keras.layers.SimpleRNNCell, activation=None), "float32", 1e-4),
    ],
    ids=["half precision", "weights used twice", "linear"],
)
def test_controllers(controller, dtype, tolerance):
    keras.utils.set_random_seed(1)
    from keras_attention.layers import DNC, DNCCell

    x = references.normal(B, 5, D, seed=1).astype("float32")
    cell = DNCCell(controller(U, dtype=dtype), M, W, R, dtype=dtype)
    layer = DNC(cell, return_sequences=True)
    layer.build(x.shape)
    variables = layer.trainable_variables
    values = [v.value for v in variables]

    def loss(values, x):
        with keras.StatelessScope(list(zip(variables, values))):
            return jnp.sum(jnp.square(layer(x).astype("float32")))

    found = jax.jit(jax.grad(loss))(values, x)
    scan, kernels.scan = kernels.scan, plain
    try:
        wanted = jax.jit(jax.grad(lambda *given: loss(*given)))(values, x)
    finally:
        kernels.scan = scan
    assert all(y.dtype == "float32" for y in found)
    assert_close(found, wanted, tolerance)
