"""A projection without Keras around it, but where that would change anything."""

import keras
import numpy as np
import pytest
import references
from calling import few_compiled
from gradients import tensor, to_numpy

from keras_attention import kernels

pytestmark = pytest.mark.backends("all")  # each backend has its own kernel

B, T, D, H, E = 2, 5, 6, 3, 4


def projection(**more):
    layer = keras.layers.EinsumDense(
        "abc,cde->abde", (None, H, E), bias_axes="de", **more
    )
    layer.build((B, T, D))
    weights = [references.normal(*w.shape, seed=i) for i, w in enumerate(layer.weights)]
    layer.set_weights(weights)
    return layer


def closing():
    layer = keras.layers.EinsumDense("abcd,cde->abe", (None, D))
    layer.build((B, T, H, E))
    return layer


def test_equals_the_layer():
    x = tensor(references.normal(B, T, D))
    heads = projection()(x)
    np.testing.assert_allclose(
        to_numpy(kernels.dense(projection(), x)), to_numpy(heads), rtol=1e-5
    )
    layer = closing()
    np.testing.assert_allclose(
        to_numpy(kernels.dense(layer, heads)), to_numpy(layer(heads)), atol=1e-5
    )


@few_compiled("kind", ["lora", "int8", "activation", "half", "penalty"], 2)
def test_whatever_else_the_layer_does_is_done(kind):
    if kind == "int8" and keras.config.backend() == "numpy":
        pytest.skip("it warns that it has no gradient")
    more = {
        "activation": {"activation": "relu"},
        "half": {"dtype": "mixed_bfloat16"},
        "penalty": {"activity_regularizer": "l2"},
    }
    layer = projection(**more.get(kind, {}))
    if kind == "lora":
        layer.enable_lora(2)
        layer.lora_kernel_b.assign(np.ones(layer.lora_kernel_b.shape))
    if kind == "int8":
        layer.quantize("int8")
    x = tensor(references.normal(B, T, D))
    found, wanted = kernels.dense(layer, x), layer(x)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(to_numpy(found), to_numpy(wanted), rtol=1e-5)
    if kind == "penalty":
        layer = projection(**more[kind])
        kernels.dense(layer, x)
        assert len(layer.losses) == 1


@pytest.mark.backends("torch", reason="torch has hooks")
@pytest.mark.parametrize(
    "hook", ["forward_pre_hook", "forward_hook", "full_backward_hook"]
)
@pytest.mark.parametrize("everywhere", [False, True])
def test_hooks_are_called(hook, everywhere):
    import torch

    dense = projection()
    x = tensor(references.normal(B, D)).requires_grad_()
    called = []

    def note(module, *values):
        called.append(module)

    if everywhere:
        handle = getattr(torch.nn.modules.module, f"register_module_{hook}")(note)
    else:
        handle = getattr(dense, f"register_{hook}")(note)
    try:
        kernels.dense(dense, x[:, None]).sum().backward()
    finally:
        handle.remove()
    assert called == [dense]
