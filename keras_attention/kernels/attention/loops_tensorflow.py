"""Loops over tiles and blocks on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def loop(step: Callable, times: Any, *state: Any) -> tuple[Any, ...]:
    """Runs step(counter, *state) `times` times and returns the last state."""
    return tf.while_loop(
        lambda i, *_: i < times,
        step,
        (tf.constant(0), *state),
        parallel_iterations=1,  # more would store several tiles at once
        maximum_iterations=times,
    )[1:]
