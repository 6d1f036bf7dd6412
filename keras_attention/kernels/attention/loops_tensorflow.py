"""Loops over tiles and blocks on TensorFlow, and gradients that recompute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_attention.kernels.attention import reference

Tensor = Any


def loop(step: Callable, times: Any, *state: Any) -> tuple[Any, ...]:
    """Runs step(counter, *state) `times` times and returns the last state."""
    return tf.while_loop(
        lambda i, *_: i < times,
        step,
        (tf.constant(0), *state),
        parallel_iterations=1,  # more would store several tiles at once
        maximum_iterations=times,
    )[1:]


def recomputed(
    output: Callable, gradients: Callable, visible: Callable, *tensors: Tensor
) -> Tensor:
    """Computes attention and stores only the tensors and the output for the gradient.

    Second derivatives use the plain form, which stores all scores.

    Args:
        output: a function of query, key, value and perhaps a bias.
        gradients: a function of the output, its gradient and the tensors.
        visible: a function that returns the mask of the plain form.
        *tensors: query, key, value and perhaps a bias.
    """

    @tf.custom_gradient
    def run(*tensors: Tensor) -> tuple[Tensor, Callable]:
        out = output(*map(tf.stop_gradient, tensors))

        @tf.custom_gradient
        def first(*sources: Tensor) -> tuple[list[Tensor], Callable]:
            def second(*slopes: Tensor) -> Any:
                return _second_gradients(visible(), sources, slopes)

            return gradients(out, *map(tf.stop_gradient, sources)), second

        def backward(slope: Tensor) -> list[Tensor]:
            pairs = zip(first(slope, *tensors), tensors)
            return [tf.ensure_shape(gradient, x.shape) for gradient, x in pairs]

        return out, backward

    return run(*tensors)


def _second_gradients(mask: Tensor | None, sources: Any, slopes: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(sources)
        slope, *tensors = sources
        with tf.GradientTape() as inner:
            inner.watch(tensors)
            query, key, value, bias = (*tensors, None)[:4]
            out = reference.dot_product_attention(
                query, key, value, mask, 1.0, False, bias
            )
        gradients = inner.gradient(out, tensors, slope)
    return tape.gradient(gradients, sources, slopes)
