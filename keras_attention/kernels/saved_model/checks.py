"""Checks of token ids that run in a graph of TensorFlow."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from keras_attention.kernels.saved_model.reference import Rules

Tensor = Any


def check(tokens: Tensor, rules: Rules) -> None:
    """Adds the checks of an input to the graph; a failed check raises an error.

    Args:
        tokens: the input of the file, integers (B, S) if the rules are about tokens.
        rules: what to check.
    """
    if rules.vocabulary is not None:
        tf.debugging.assert_non_negative(tokens, "A token must be at least 0.")
        limit = tf.cast(rules.vocabulary, tokens.dtype)
        message = f"A token must be below {rules.vocabulary}, the vocabulary's size."
        tf.debugging.assert_less(tokens, limit, message)
    if rules.positions is not None:
        message = f"A sequence must have at most {rules.positions} positions."
        tf.debugging.assert_less_equal(tf.shape(tokens)[1], rules.positions, message)
    if rules.prompts:
        is_token = tf.cast(tf.not_equal(tokens, 0), "int32")
        message = "A prompt must have a token, and padding (0) only after its tokens."
        starts = tf.ones_like(is_token[:, 0])
        tf.debugging.assert_equal(is_token[:, 0], starts, message)
        before, after = is_token[:, :-1], is_token[:, 1:]
        tf.debugging.assert_less_equal(after, before, message)
