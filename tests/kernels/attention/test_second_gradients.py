"""Second gradients of torch's fused attention, against float64 finite differences."""

import numpy as np
import pytest
from gradients import tensor

from keras_attention.kernels.attention import tiles
from keras_attention.ops import dot_product_attention

pytestmark = pytest.mark.backends("torch", reason="its kernels have no second gradient")
B, T, S, H, E = 2, 5, 7, 2, 3
MASK = np.random.default_rng(9).random((B, 1, 1, S)) < 0.7
MASK[1] = False  # no key at all
# Of each case: the heads of keys, the mask, and options.
CASES = {
    "plain": (H, None, {}),
    "causal": (H, None, {"is_causal": True}),
    "grouped": (1, None, {}),
    "padding": (H, MASK, {"is_causal": True}),
    "bias": (H, MASK, {"bias": np.random.default_rng(8).normal(size=(1, H, T, S))}),
    "window": (H, MASK, {"sliding_window": 2}),
}


@pytest.fixture(params=CASES)
def case(request, monkeypatch):
    """A function of query, key and value, and the three, which require gradients."""
    for name in ("LEAST", "BLOCK"):
        monkeypatch.setattr(tiles, name, 1)
    groups, mask, options = CASES[request.param]
    mask = None if mask is None else tensor(mask, "bool")
    options = {
        n: tensor(x, "float64") if n == "bias" else x for n, x in options.items()
    }
    random = np.random.default_rng(7)
    shapes = (B, T, H, E), (B, S, groups, E), (B, S, groups, E)
    arrays = [tensor(random.normal(size=shape), "float64") for shape in shapes]

    def attention(query, key, value):
        return dot_product_attention(query, key, value, mask, **options)

    return attention, [x.requires_grad_() for x in arrays]


def test_they_equal_finite_differences(case):
    import torch

    attention, arrays = case
    assert torch.autograd.gradcheck(attention, arrays)
    assert torch.autograd.gradgradcheck(attention, arrays)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # of torch
def test_transformed_functions_give_the_same(case):
    import torch

    attention, arrays = case
    query, key, value = (x.detach() for x in arrays)
    along = torch.ones_like(query)

    def loss(x):
        return (attention(x, key * x.mean(), value) ** 2).sum()

    wanted = torch.autograd.functional.hvp(loss, query, along)[1]
    forward = torch.func.jvp(torch.func.grad(loss), (query,), (along,))[1]
    backward = torch.func.vjp(torch.func.grad(loss), query)[1](along)[0]
    for found in (forward, backward):
        np.testing.assert_allclose(found.detach(), wanted, atol=1e-10)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(query, along)
        slope = torch.autograd.forward_ad.unpack_dual(loss(dual)).tangent
    expected = (torch.func.grad(loss)(query) * along).sum().detach()
    np.testing.assert_allclose(slope, expected, rtol=1e-10)


def test_a_key_may_depend_on_the_query():
    """Self-attention, whose gradients must not be counted twice."""
    import torch

    x = torch.randn(B, T, H, E, dtype=torch.float64, requires_grad=True)

    def attention(x):
        return dot_product_attention(x, x, x * x.sum())

    assert torch.autograd.gradgradcheck(attention, [x])


def test_a_gradient_that_is_not_recorded_has_no_second_one(monkeypatch):
    """The graph of the explicit kernel is only built where it is needed."""
    import torch

    x = torch.randn(B, T, H, E, requires_grad=True)
    output = dot_product_attention(x, x, x)
    monkeypatch.setattr(torch._C, "_current_autograd_node", None)
    (slope,) = torch.autograd.grad(output.sum(), x)
    assert not slope.requires_grad


def test_other_threads_keep_their_kernels():
    """A choice of kernels counts for the whole process, not for one thread."""
    import torch

    x = torch.randn(B, T, H, E, dtype=torch.float64)
    seen = set()

    def attention(x):
        seen.add(torch.backends.cuda.flash_sdp_enabled())
        return dot_product_attention(x, x, x)

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.add(torch.backends.cuda.flash_sdp_enabled())
            return function(*args, **(kwargs or {}))

    with Watch():
        torch.autograd.functional.hvp(lambda x: attention(x).sum(), x, x)
        torch.func.jvp(attention, (x,), (x,))
    assert seen == {True}


def test_blocks_are_recomputed_in_the_dtype_of_autocast(monkeypatch):
    """Gradients are usually computed after the context of autocast has ended."""
    import torch

    for name in ("LEAST", "BLOCK"):
        monkeypatch.setattr(tiles, name, 1)
    query = torch.randn(B, T, H, E, requires_grad=True)
    x = torch.randn(B, S, H, E)
    with torch.autocast("cpu", torch.bfloat16):
        output = dot_product_attention(query, x, x, sliding_window=2)
    assert output.dtype == torch.bfloat16
    (slope,) = torch.autograd.grad(output.sum(), query)
    assert torch.equal(slope, slope.bfloat16().float())
