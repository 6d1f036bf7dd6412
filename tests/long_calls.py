"""Calls that are long enough for what the kernels do with long sequences."""

import functools

import numpy as np

from keras_attention import layers

LONG, UNITS = 1031, 16
HEADS = {
    "heads": {},
    "grouped": {"num_key_value_heads": 1},
    "near": {"sliding_window": 17},
    "drops": {"dropout": 0.5},
}


def long_calls(**more):
    """Yields a name, a layer, its call and its inputs; `more` goes to the layers."""
    for kind, arguments in HEADS.items():
        for causal in (False, True):
            for masked in (False, True):
                made = layers.MultiHeadAttention(2, UNITS // 2, **arguments, **more)
                call = functools.partial(attend, made, use_causal_mask=causal)
                name = f"{kind}{'_causal' * causal}{'_masked' * masked}"
                yield name, made, call, inputs(masked)
    made = layers.BahdanauAttention(UNITS, **more)
    yield "additive", made, functools.partial(attend, made), inputs(True)


def inputs(masked):
    x = np.zeros((1, LONG, UNITS), "float32")
    return {"x": x, **({"mask": np.ones((1, LONG), bool)} if masked else {})}


def attend(made, given, **more):
    x = given["x"]
    return made(x, x, value_mask=given.get("mask"), training=True, **more)
