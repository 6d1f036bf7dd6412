"""Checks of token ids that run in a graph of TensorFlow."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from keras_attention.kernels.saved_model.reference import Rules

Tensor = Any


def checked(tokens: Tensor, rules: Rules) -> Tensor:
    """Returns an input after its checks, which raise an error when the graph runs.

    The input is integers (B, S) if the rules are about tokens.
    """
    checks = []
    if rules.vocabulary is not None:
        checks.append(
            tf.debugging.assert_non_negative(tokens, "A token must be at least 0.")
        )
        limit = tf.cast(rules.vocabulary, tokens.dtype)
        message = (
            f"A token must be below {rules.vocabulary}, the size of the vocabulary."
        )
        checks.append(tf.debugging.assert_less(tokens, limit, message))
    if rules.positions is not None:
        message = f"A sequence must have at most {rules.positions} positions."
        length = tf.shape(tokens)[1]
        checks.append(tf.debugging.assert_less_equal(length, rules.positions, message))
    if rules.prompts and rules.padding is None:
        message = "A prompt must have a token."
        checks.append(tf.debugging.assert_positive(tf.shape(tokens)[1], message))
    elif rules.prompts:
        padding = tf.cast(rules.padding, tokens.dtype)
        is_token = tf.cast(tf.not_equal(tokens, padding), "int32")
        message = (
            f"A prompt must have a token, and padding ({rules.padding}) only after its "
            "tokens."
        )
        first, before, after = is_token[:, 0], is_token[:, :-1], is_token[:, 1:]
        checks.append(tf.debugging.assert_positive(first, message))
        checks.append(tf.debugging.assert_less_equal(after, before, message))
    with tf.control_dependencies(checks):
        return tf.identity(tokens)
