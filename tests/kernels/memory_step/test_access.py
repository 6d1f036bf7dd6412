"""A step of the memory with its gradient written out, against the one step."""

import functools

import keras
import numpy as np
import pytest
import references
from calling import BACKEND, few_compiled
from gradients import gradient, second, tensor, to_numpy
from keras import ops

from keras_attention import kernels
from keras_attention.kernels.memory_step import gradient as written
from keras_attention.kernels.memory_step import reference
from keras_attention.kernels.memory_step.reference import MemoryState

pytestmark = pytest.mark.backends("jax", "tensorflow", reason="their own gradients")

B, M, W, R = 4, 7, 5, 3
SHAPES = ((B, M, W), (B, M), (B, 1, M), (B, R, M), (B, 1, M), (B, 1, M, M))

if BACKEND not in ("jax", "tensorflow"):
    pytest.skip("other backends run the reference", allow_module_level=True)


OPTIONS = {
    "plain": reference.GRAVES,
    "masked": reference.GRAVES._replace(masked_keys=True),
    "deallocating": reference.GRAVES._replace(deallocation=True),
    "both": reference.GRAVES._replace(masked_keys=True, deallocation=True),
    "epsilon": reference.GRAVES._replace(epsilon=0.05),
}


def numbers(options=reference.GRAVES):
    """ξ and memories: of random numbers, empty, full, and with slots that tie."""
    x = np.random.default_rng(3)
    spread = functools.partial(references.spread, x)

    widths = reference.interface_widths(W, R, 1, options)
    interface = x.normal(size=(B, sum(widths)))
    old = MemoryState(
        memory=x.normal(size=(B, M, W)),
        usage=x.random((B, M)),
        write_weights=spread(B, 1, M) / 2,
        read_weights=spread(B, R, M),
        precedence=spread(B, 1, M) / 2,
        links=spread(B, 1, M, M) * (1 - np.eye(M)) / 2,
    )
    for array in old:
        array[1] = 0
    old.usage[2] = 1
    old.usage[3], old.write_weights[3], old.read_weights[3] = 0.25, 1 / M, 1 / M
    old.memory[3] = old.memory[3, :1]
    # Two heads let go of the same slot altogether.
    interface[0, sum(widths[:8]) :][:2] = 40
    old.read_weights[0, :2] = np.eye(M)[2]
    return interface, *old


def along():
    return references.normals((B, R, W), *SHAPES)


def total(access, mask=None, options=reference.GRAVES):
    """Σ along · (what an access gives), as a function of ξ and the memory."""
    weights = [tensor(a) for a in along()]

    def run(interface, *old):
        read, new, _ = access(interface, MemoryState(*old), mask, options)
        return sum(ops.sum(a * x) for a, x in zip(weights, (read, *new)))

    return run


@pytest.fixture
def without_reference(monkeypatch):
    """The kernel must do without the gradient that its backend takes by itself."""

    def refused(*arguments):
        raise AssertionError("the reference took over")

    return lambda: monkeypatch.setattr(reference, "access_memory", refused)


@few_compiled("padded", [False, True])
@pytest.mark.parametrize("name", OPTIONS)
def test_the_kernel_is_the_step(name, padded, without_reference):
    options = OPTIONS[name]
    mask = tensor([[1], [1], [0], [1]]) if padded else None
    interface, *old = map(tensor, numbers(options))
    right = reference.access_memory(interface, MemoryState(*old), mask, options)
    without_reference()
    read, new, _ = kernels.access_memory(interface, MemoryState(*old), mask, options)
    for one, other in zip((read, *new), (right[0], *right[1])):
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), rtol=0, atol=1e-5)


@few_compiled("padded", [False, True])
@pytest.mark.parametrize("name", OPTIONS)
def test_its_gradient_is_that_of_the_step(name, padded, without_reference):
    options = OPTIONS[name]
    mask = tensor([[1], [1], [0], [1]]) if padded else None
    arrays = numbers(options)
    right = gradient(total(reference.access_memory, mask, options), *arrays)
    without_reference()
    ours = gradient(total(kernels.access_memory, mask, options), *arrays)
    for name, one, other in zip(("interface", *MemoryState._fields), ours, right):
        scale = 1 + np.abs(other).max(axis=tuple(range(1, other.ndim)), keepdims=True)
        np.testing.assert_allclose(one / scale, other / scale, atol=1e-5, err_msg=name)


@pytest.mark.backends("tensorflow", reason="Keras keeps float64 here alone")
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", OPTIONS)
def test_its_gradient_in_float64(name, padded, without_reference):
    """`gradient.py`, which JAX takes, too."""
    options = OPTIONS[name]
    mask = tensor([[1], [1], [0], [1]], "float64") if padded else None
    weights = [tensor(a, "float64") for a in along()]
    arrays = numbers(options)

    def slopes(access):
        def score(interface, *old):
            read, new, _ = access(interface, MemoryState(*old), mask, options)
            return sum(ops.sum(a * x) for a, x in zip(weights, (read, *new)))

        return gradient(score, *arrays, dtype="float64")

    right = slopes(reference.access_memory)
    without_reference()
    ours = slopes(kernels.access_memory)
    for name, one, other in zip(("interface", *MemoryState._fields), ours, right):
        scale = 1 + np.abs(other).max()
        np.testing.assert_allclose(one / scale, other / scale, atol=1e-12, err_msg=name)


def test_comparing_slots_is_sorting_them():
    usage, slope = tensor(numbers()[2]), tensor(references.normal(B, M))
    sorted_slots, compared = (
        reference.allocation_weights(usage, compare) for compare in (False, True)
    )
    for one, two in (
        (sorted_slots[0], compared[0]),
        [written.allocation_gradient(x[1], slope) for x in (sorted_slots, compared)],
    ):
        one, two = to_numpy(one), to_numpy(two)
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_padded_step_leaves_what_is_written_alone(name):
    options = OPTIONS[name]
    interface, *old = map(tensor, numbers(options))
    old = MemoryState(*old)
    _, new, _ = kernels.access_memory(interface, old, ops.zeros((B, 1)), options)
    for name in ("memory", "links", "precedence"):
        one, other = to_numpy(getattr(new, name)), to_numpy(getattr(old, name))
        np.testing.assert_array_equal(one, other, err_msg=name)


def test_gradients_can_be_differentiated_again():
    arrays = numbers()
    arrays[2][1] = 0.1  # at usage 0 second derivatives are as large as 1e6
    turned = [references.normal(*a.shape, seed=9) for a in arrays]
    ours = second(total(kernels.access_memory), arrays, turned)
    right = second(total(reference.access_memory), arrays, turned)
    for one, other in zip(ours[0][[0, 2, 3]], right[0][[0, 2, 3]]):
        np.testing.assert_allclose(one, other, atol=1e-3 * (1 + np.abs(other).max()))


@few_compiled(
    "change", [{"sharp_links": True}, {"soft_allocation": True}, {"linkage": None}]
)
def test_other_forms_are_left_to_the_step(change):
    options = reference.GRAVES._replace(**change)
    _, *old = map(tensor, numbers())
    old = MemoryState(*old)
    if options.linkage is None:
        old = old._replace(precedence=(), links=())
    width = sum(reference.interface_widths(W, R, 1, options))
    interface = tensor(references.normal(B, width))
    read, new, _ = kernels.access_memory(interface, old, None, options)
    right, wanted, _ = reference.step(interface, old, None, options)
    np.testing.assert_allclose(to_numpy(read), to_numpy(right), atol=1e-6)
    linked = options.linkage is not None
    assert isinstance(new.links, tuple) == isinstance(wanted.links, tuple) != linked


def test_symbols_are_left_to_the_step():
    width = sum(reference.interface_widths(W, R, 1, reference.GRAVES))
    symbols = [keras.KerasTensor(shape) for shape in ((B, width), *SHAPES)]
    read, new, _ = kernels.access_memory(symbols[0], MemoryState(*symbols[1:]))
    assert read.shape == (B, R, W)
    assert tuple(x.shape for x in new) == SHAPES
