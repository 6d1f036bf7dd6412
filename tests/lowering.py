"""Programs of layers and models on JAX for a platform that is not here."""

import contextlib
from unittest import mock

import jax
import keras
import numpy as np
from jax import export
from jax._src.cudnn import fused_attention_stablehlo as jax_checks

from keras_attention.kernels.attention import jax_cudnn
from keras_attention.kernels.tracing import jax as tracing

CALLS = "__cudnn$fmhaSoftmax", "__cudnn$fmhaSoftmaxBackward"


def lowered(made, call, inputs, platform, names, widest=0):
    """The program of a call and its gradients, as a GPU or a TPU would get it.

    Args:
        made: the layer or the model, built.
        call: from inputs by name to the output.
        inputs: arrays by name.
        platform: "gpu" or "tpu", whose path is taken.
        names: the platforms to lower for, "cuda" or "tpu".
        widest: the largest width of a head that cuDNN is said to take.
    """
    variables = made.trainable_variables, made.non_trainable_variables

    def step(weights, others, floats, rest):
        def loss(weights, floats):
            values = zip([*variables[0], *variables[1]], [*weights, *others])
            with keras.StatelessScope([*values]) as scope:
                given = {name: {**floats, **rest}[name] for name in inputs}
                output = call(given)
            after = [scope.get_current_value(v) for v in variables[1]]
            return jax.numpy.sum(output.astype("float32")), (output, after)

        return jax.value_and_grad(loss, (0, 1), has_aux=True)(weights, floats)

    is_float = {name: array.dtype.kind == "f" for name, array in inputs.items()}
    given = [[v.value for v in group] for group in variables]
    given += [
        {name: array for name, array in inputs.items() if is_float[name] == kept}
        for kept in (True, False)
    ]
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), x.dtype), given)
    checks = [export.DisabledSafetyCheck.custom_call(name) for name in CALLS]
    facts = (
        (tracing, "default_backend", platform),
        (jax_cudnn, "widest", widest),
        (jax_checks, "check_cudnn_version", 91900),
        (jax_checks, "check_compute_capability", True),
        (jax_checks, "is_cuda_compute_capability_equal", False),
    )
    with contextlib.ExitStack() as stack:
        for module, name, value in facts:
            stack.enter_context(mock.patch.object(module, name, return_value=value))
        exported = export.export(jax.jit(step), platforms=names, disabled_checks=checks)
        return exported(*shapes)
