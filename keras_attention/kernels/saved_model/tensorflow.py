"""SavedModels from TensorFlow, and the checks of token ids in their graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

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


def checked(tokens: Tensor, rules: Rules) -> Tensor:
    """Returns an input after its checks, which raise an error when the graph runs.

    The input is integers (B, S) if the rules are about tokens.
    """
    conditions = []
    if rules.vocabulary is not None:
        text = f"A token must be below {rules.vocabulary}, the size of the vocabulary."
        conditions += [(tokens >= 0, "A token must be at least 0.")]
        conditions += [(tokens < rules.vocabulary, text)]
    if rules.positions is not None:
        text = f"A sequence must have at most {rules.positions} positions."
        conditions += [(tf.shape(tokens)[1] <= rules.positions, text)]
    if rules.prompts and rules.padding is None:
        conditions += [(tf.shape(tokens)[1] > 0, "A prompt must have a token.")]
    elif rules.prompts:
        text = (
            f"A prompt must have a token, and padding ({rules.padding}) only after its "
            "tokens."
        )
        is_token = tokens != rules.padding
        conditions += [(is_token[:, 0], text)]
        conditions += [(is_token[:, :-1] | ~is_token[:, 1:], text)]
    checks = [
        tf.debugging.Assert(tf.reduce_all(condition), [text, "Received:", tokens])
        for condition, text in conditions
    ]
    with tf.control_dependencies(checks):
        return tf.identity(tokens)
