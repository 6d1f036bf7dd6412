"""Loops over chunks, tiles and blocks on TensorFlow, with gradients."""

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
    output: Callable, gradients: Callable, plain: Callable, *tensors: Tensor
) -> Tensor:
    """Returns output(*tensors); only the tensors and the output are stored.

    The gradient is gradients(output, slope, *tensors). Second derivatives are those of
    plain(slope, *tensors), the same gradient by differentiable operations.
    """

    # The tape cannot record XLA's loops; `stop_gradient` keeps it from trying.
    @tf.custom_gradient
    def run(*tensors: Tensor) -> tuple[Tensor, Callable]:
        out = output(*map(tf.stop_gradient, tensors))

        @tf.custom_gradient
        def first(*sources: Tensor) -> tuple[Any, Callable]:
            def second(*slopes: Tensor) -> Any:
                with tf.GradientTape() as tape:
                    tape.watch(sources)
                    results = plain(*sources)
                return tape.gradient(results, sources, slopes)

            return gradients(out, *map(tf.stop_gradient, sources)), second

        def backward(slope: Tensor) -> list[Tensor]:
            pairs = zip(first(slope, *tensors), tensors)
            return [tf.ensure_shape(gradient, x.shape) for gradient, x in pairs]

        return out, backward

    return run(*tensors)


def recomputed_tiles(
    output: Callable, gradients: Callable, visible: Callable, *tensors: Tensor
) -> Tensor:
    """Calls `recomputed` with a mask for the plain form, which stores all scores."""

    def plain(slope: Tensor, *tensors: Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            query, key, value, bias = (*tensors, None)[:4]
            out = reference.dot_product_attention(
                query, key, value, visible(), 1.0, False, bias
            )
        return tape.gradient(out, tensors, slope)

    return recomputed(output, gradients, plain, *tensors)
