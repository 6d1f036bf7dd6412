"""SavedModels from TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from keras_attention.kernels.saved_model.checks import checked
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
    """Writes a SavedModel with the endpoint `serve`.

    Args:
        path: the folder to write to.
        model: the model whose weights the function uses.
        function: a function of one tensor.
        spec: the shape and dtype of the tensor.
        rules: the checks of the tensor, which the file contains.
        plain: whether the function neither sorts nor draws random numbers. JAX requires
            this.
    """

    def serve(inputs: Tensor) -> Tensor:
        return function(checked(inputs, rules))

    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", serve, [spec])
    archive.write_out(path, verbose=False)
