"""SavedModels from JAX, which need TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from keras_attention.kernels.saved_model.reference import Rules

Tensor = Any


def save_function(
    path: str,
    model: keras.Model,
    function: Callable[[Tensor], Tensor],
    spec: keras.InputSpec,
    rules: Rules,
    plain: bool,
) -> None:
    """Writes a SavedModel with the endpoint `serve`; see the file for TensorFlow.

    Raises:
        ImportError: if TensorFlow is not installed.
        ValueError: if the function is not plain. Keras' export from JAX only updates
            the random states of a model, and TensorFlow cannot run the `top_k` of JAX
            with open sizes.
    """
    if not plain:
        raise ValueError(
            "JAX can only export the sampler 'greedy'. Save the model with "
            "`model.save('model.keras')`; in a process with KERAS_BACKEND=tensorflow, "
            "load it with `keras.saving.load_model` and export it there. "
            "Received: the backend 'jax'"
        )
    import tensorflow as tf

    from keras_attention.kernels.saved_model.tensorflow import checked

    archive = keras.export.ExportArchive()
    archive.track(model)
    unchecked = archive.add_endpoint("serve", function, [spec])

    @tf.function(
        input_signature=[tf.TensorSpec(spec.shape, spec.dtype, name=spec.name)],
        autograph=False,
    )
    def serve(inputs: Tensor) -> Tensor:
        return unchecked(checked(inputs, rules))  # a graph of JAX raises no errors

    module = tf.Module()
    module.weights, module.serve = archive.variables, serve
    # The names of Keras' own exports.
    signatures = {"serve": serve, "serving_default": serve}
    tf.saved_model.save(module, path, signatures)
