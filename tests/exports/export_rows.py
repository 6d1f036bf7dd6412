"""The rows of the matrix of exports: models, layers, and the same of Keras' layers.

Most rows stand in `tests/catalogue.py`. Each row becomes a functional model with a
dict of named inputs, whose sizes are unknown where the row allows it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import catalogue
import keras
import numpy as np
from catalogue import Row
from keras import ops

from keras_attention import layers, models

SIZES = ({}, {"B": 3, "T": 4, "S": 6, "M": 6, "L": 4})  # of the inputs to compare
# Inputs of the catalogue whose batch, or whose number of slots, is part of the row.
SAME = {
    "key_value_memnn": "M",
    "key_value_memnn_two_hops": "M",
    "word_responder": "BL",
    "fact_finder": "L",
    "memnn_adaptive": "B",
    "matrix_factorization": "S",
}


class Causal(keras.layers.Layer):
    """Self-attention that is causal and knows of padding."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(3, 4)

    def call(self, inputs: Any, mask: Any = None) -> Any:
        return self.attention(inputs, inputs, value_mask=mask, use_causal_mask=True)


class Positions(keras.layers.Layer):
    """Adds the number of each step."""

    def call(self, inputs: Any) -> Any:
        steps = ops.cast(ops.arange(ops.shape(inputs)[1]), "float32")
        return inputs + steps[:, None]


class Halves(keras.layers.Layer):
    """Halves all numbers until the largest is below 1."""

    def call(self, inputs: Any) -> Any:
        return ops.while_loop(
            lambda x: ops.max(ops.abs(x)) > 0.1, lambda x: (x / 2,), (inputs,)
        )[0]


class Sorts(keras.layers.Layer):
    def call(self, inputs: Any) -> Any:
        return ops.cast(ops.argsort(inputs, axis=1), "float32")


class Layered(Row):
    """A row about a layer of Keras, which takes one tensor, or two as a list."""

    def call(self, made: Any, tensors: dict[str, Any], **more: Any) -> Any:
        if len(tensors) == 1:
            return made(*tensors.values())
        return made([*tensors.values()])


class Attended(Row):
    """A row about Keras' attention: query and value by position."""

    def call(self, made: Any, tensors: dict[str, Any], **more: Any) -> Any:
        return made(tensors["query"], tensors["value"])


def _two(rng: np.random.Generator) -> catalogue.Arrays:
    one = catalogue._each(rng)["inputs"]
    return {"first": one, "second": 2 * one}


def _pictures(rng: np.random.Generator) -> catalogue.Arrays:
    return {"image": catalogue._pictures(rng)["image"]}


def _query_value(rng: np.random.Generator) -> catalogue.Arrays:
    inputs = catalogue._memory(rng)
    return {name: inputs[name] for name in ("query", "value")}


def _words(rng: np.random.Generator) -> catalogue.Arrays:
    return {"tokens": catalogue._texts(rng)["tokens"]}


MORE = [
    Row(
        "ntm_network",
        models.DNCNetwork,
        {
            "cell": partial(catalogue._ntm_cell, word_width=3),
            "output_units": 3,
            "input_dim": catalogue.D,
        },
        catalogue._asked,
    ),
    Row("multi_head_causal", Causal, {}, catalogue._block),
    Layered("keras_dense", keras.layers.Dense, {"units": 3}, catalogue._each),
    Layered(
        "keras_embedding",
        keras.layers.Embedding,
        {"input_dim": catalogue.WORDS, "output_dim": 3},
        _words,
        unknown={"tokens": (0, 1)},
    ),
    Layered(
        "keras_gelu",
        keras.layers.Dense,
        {"units": 3, "activation": "gelu"},
        catalogue._each,
    ),
    Layered(
        "keras_normalization", keras.layers.LayerNormalization, {}, catalogue._each
    ),
    Layered(
        "keras_convolution",
        keras.layers.Conv2D,
        {"filters": 3, "kernel_size": 3},
        _pictures,
        unknown={"image": (0,)},
    ),
    Attended(
        "keras_multi_head",
        keras.layers.MultiHeadAttention,
        {"num_heads": 3, "key_dim": 2},
        _query_value,
    ),
    Layered(
        "keras_gru",
        keras.layers.GRU,
        {"units": 3, "return_sequences": True},
        catalogue._each,
    ),
    Layered("keras_add", keras.layers.Add, {}, _two),
    Layered("keras_argsort", Sorts, {}, catalogue._each),
    Layered("keras_arange", Positions, {}, catalogue._each),
    Layered("keras_while_loop", Halves, {}, catalogue._each),
]
ROWS = {row.name: row for row in (*catalogue.ROWS, *MORE)}


def inputs(name: str, size: int) -> catalogue.Arrays:
    """The inputs of a row at the given one of `SIZES`."""
    changed = {k: v for k, v in SIZES[size].items() if k not in SAME.get(name, "")}
    before = {k: getattr(catalogue, k) for k in changed}
    for k, v in changed.items():
        setattr(catalogue, k, v)
    try:
        return ROWS[name].inputs(np.random.default_rng(1 + size))
    finally:
        for k, v in before.items():
            setattr(catalogue, k, v)


def build(name: str) -> keras.Model:
    """A model of a row, with weights drawn by NumPy."""
    row, example = ROWS[name], inputs(name, 0)
    keras.utils.set_random_seed(0)
    made = row.make()
    if row.is_model:
        model = made
    else:
        symbols = {}
        for key, array in example.items():
            last = array.ndim - (array.dtype != bool)  # a mask has no width
            unknown = row.unknown.get(key, range(last))
            shape = [None if i in unknown else n for i, n in enumerate(array.shape)]
            symbols[key] = keras.Input(
                batch_shape=shape, dtype=str(array.dtype), name=key
            )
        model = keras.Model(symbols, row.call(made, symbols))
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(scale=0.5, size=weight.shape))
    return model
