"""Fast weights: a memory matrix that each step decays, erases from and writes to."""

from keras_attention.ops.fast_weights.rules import (
    delta_rule,
    delta_rule_step,
    last_keys,
    linear_attention,
    linear_attention_step,
    read,
    weights,
)

__all__ = [
    "delta_rule",
    "delta_rule_step",
    "last_keys",
    "linear_attention",
    "linear_attention_step",
    "read",
    "weights",
]
__dir__ = __all__.copy
