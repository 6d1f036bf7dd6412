"""A step of the memory in one kernel, against the equations one after the other."""

import keras
import numpy as np
import pytest
import references
from gradients import gradient, second, tensor, to_numpy
from keras import ops

from keras_attention import kernels
from keras_attention.kernels.memory_step import reference as plain
from keras_attention.ops.memory import addressing, links

pytestmark = pytest.mark.backends("all")  # each backend has its own kernel

B, M, W, R = 4, 7, 5, 3
BACKEND = keras.config.backend()
SHAPES = ((B, M, W), (B, M), (B, 1, M, M), (B, 1, M), (B, 1, M), (B, R, M))

if BACKEND not in ("jax", "torch", "tensorflow"):
    pytest.skip("there are no gradients to write out here", allow_module_level=True)


FORMS = {
    "plain": plain.Form(),
    "masked": plain.Form(least_mask=0.1),
    "deallocating": plain.Form(deallocates=True),
    "both": plain.Form(0.1, True),
}


def one_after_the_other(interface, old, there=None, form=plain.PLAIN):
    """The functions of `addressing` and `links`."""
    x = plain.taken_apart(interface, W, R, there, form.least_mask)
    masks = (None, None) if x.masks is None else (x.masks[:, :R], x.masks[:, R:])
    erase, free, allocate, write = plain.gates_of(x.gates, R)
    psi = addressing.retention(free, old.read_weights)
    usage = addressing.usage(old.usage, old.write_weights, psi)
    w = addressing.write_weights(
        addressing.content_weights(
            old.memory, x.write_key, x.strengths[:, R:, 0], masks[1]
        ),
        addressing.allocations(usage, write),
        write,
        allocate,
    )
    values = x.values[:, None]
    memory = old.memory
    if form.deallocates:
        memory = addressing.deallocate(memory, psi)
    memory = addressing.erase_and_write(memory, w, erase[:, None], values)
    linked = links.links(old.links, old.precedence, w)
    last = links.precedence(old.precedence, w)
    forward, backward = links.directions(linked, old.read_weights)
    content = addressing.content_weights(
        memory, x.read_keys, x.strengths[:, :R, 0], masks[0]
    )
    reads = addressing.read_weights(x.modes, backward, content, forward)
    new = plain.Memory(memory, usage, linked, last, w, reads)
    return addressing.read(memory, reads), new


def numbers(form=plain.PLAIN):
    """ξ and memories: of random numbers, empty, full, and with slots that tie."""
    x = np.random.default_rng(3)

    def spread(*shape):
        y = x.random(shape)
        return y / y.sum(axis=-1, keepdims=True)

    masked = form.least_mask is not None
    interface = x.normal(size=(B, sum(plain.parts(W, R, masked))))
    old = plain.Memory(
        memory=x.normal(size=(B, M, W)),
        usage=x.random((B, M)),
        links=spread(B, 1, M, M) * (1 - np.eye(M)) / 2,
        precedence=spread(B, 1, M) / 2,
        write_weights=spread(B, 1, M) / 2,
        read_weights=spread(B, R, M),
    )
    for array in old:
        array[1] = 0
    old.usage[2] = 1
    old.usage[3], old.write_weights[3], old.read_weights[3] = 0.25, 1 / M, 1 / M
    old.memory[3] = old.memory[3, :1]
    # Two heads let go of the same slot altogether.
    interface[0, sum(plain.parts(W, R)[:4]) + W :][:2] = 40
    old.read_weights[0, :2] = np.eye(M)[2]
    return interface, *old


def along():
    return [references.normal(*s, seed=i) for i, s in enumerate(((B, R, W), *SHAPES))]


def total(access, there=None, form=plain.PLAIN):
    """Σ along · (what an access gives), as a function of ξ and the memory."""
    weights = [tensor(a) for a in along()]

    def run(interface, *old):
        read, new = access(interface, plain.Memory(*old), there, form)
        return sum(ops.sum(a * x) for a, x in zip(weights, (read, *new)))

    return run


def applies(name):
    """Torch leaves the other forms to the equations."""
    if name != "plain" and BACKEND == "torch":
        interface, *old = map(tensor, numbers(FORMS[name]))
        old = plain.Memory(*old)
        assert kernels.access_memory(interface, old, None, FORMS[name]) is None
        pytest.skip("torch takes the plain form alone")
    return FORMS[name]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_the_kernel_is_the_equations(name, padded):
    form = applies(name)
    there = tensor([[1], [1], [0], [1]]) if padded else None
    interface, *old = map(tensor, numbers(form))
    found = kernels.access_memory(interface, plain.Memory(*old), there, form)
    assert found is not None
    right = one_after_the_other(interface, plain.Memory(*old), there, form)
    for one, other in zip((found[0], *found[1]), (right[0], *right[1])):
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), rtol=0, atol=1e-5)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_its_gradient_is_theirs(name, padded):
    form = applies(name)
    there = tensor([[1], [1], [0], [1]]) if padded else None
    ours = gradient(total(kernels.access_memory, there, form), *numbers(form))
    right = gradient(total(one_after_the_other, there, form), *numbers(form))
    for name, one, other in zip(("interface", *plain.Memory._fields), ours, right):
        scale = 1 + np.abs(other).max(axis=tuple(range(1, other.ndim)), keepdims=True)
        np.testing.assert_allclose(one / scale, other / scale, atol=1e-5, err_msg=name)


def test_comparing_slots_is_sorting_them():
    interface, *old = map(tensor, numbers())
    _, _, held = plain.forward(interface, plain.Memory(*old))
    _, _, other = plain.forward(
        interface, plain.Memory(*old), form=plain.Form(compared=True)
    )
    slope = tensor(references.normal(B, M))
    for one, two in (
        (held.allocation, other.allocation),
        *[[plain._allocation_gradient(x, slope) for x in (held, other)]],
    ):
        one, two = to_numpy(one), to_numpy(two)
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FORMS)
def test_what_is_not_there_changes_nothing_written(name):
    form = applies(name)
    interface, *old = map(tensor, numbers(form))
    old = plain.Memory(*old)
    _, new = kernels.access_memory(interface, old, ops.zeros((B, 1)), form)
    for name in ("memory", "links", "precedence"):
        one, other = to_numpy(getattr(new, name)), to_numpy(getattr(old, name))
        np.testing.assert_array_equal(one, other, err_msg=name)


def test_gradients_can_be_differentiated_again():
    arrays = numbers()
    arrays[2][1] = 0.1  # at usage 0 second derivatives are as large as 1e6
    turned = [references.normal(*a.shape, seed=9) for a in arrays]
    ours = second(total(kernels.access_memory), arrays, turned)
    right = second(total(one_after_the_other), arrays, turned)
    for one, other in zip(ours[0][[0, 2, 3]], right[0][[0, 2, 3]]):
        np.testing.assert_allclose(one, other, atol=1e-3 * (1 + np.abs(other).max()))


def test_symbols_are_left_to_the_equations():
    symbols = [keras.KerasTensor(shape) for shape in ((B, 41), *SHAPES)]
    assert kernels.access_memory(symbols[0], plain.Memory(*symbols[1:])) is None


@pytest.mark.backends("torch", reason="torch's own ways to differentiate")
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is:DeprecationWarning")  # jvp
def test_torch_transforms_and_autocast_get_the_equations():
    import torch

    interface, *old = map(tensor, numbers())
    found = []

    def run(x):
        found.append(kernels.access_memory(x, plain.Memory(*old)))
        return one_after_the_other(x, plain.Memory(*old))[0].sum()

    torch.func.grad(run)(interface)
    torch.func.jvp(run, (interface,), (interface,))
    with torch.autograd.forward_ad.dual_level():
        run(interface)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        run(interface)
    assert found == [None] * 4
    run(interface)
    assert found[-1] is not None


@pytest.mark.backends("torch", reason="torch's own checkpoints")
def test_torch_holds_nothing_that_a_checkpoint_does_not_see():
    import torch

    interface, *old = map(tensor, numbers())
    interface.requires_grad_()
    packed = []

    def pack(x):
        packed.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        read, _ = kernels.access_memory(interface, plain.Memory(*old))
    node = read.grad_fn
    held = [name for name, x in vars(node).items() if isinstance(x, torch.Tensor)]
    assert packed
    assert not held
    read.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        read.sum().backward()
