"""The models to train on several devices, and the sizes whose weights are counted.

Sizes are multiples of 4, so that the model axis of a mesh of 2 × 4 devices divides
them; a few are not, so that weights that stay whole are tested, too. Dropout is off,
because Keras draws other random numbers on several devices.

Shapes: B batch, M sentences, L words, T and S lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attention import layers, models
from keras_attention.losses import SupportingFactLoss
from keras_attention.models.base import recorded

B, M, L, T, S, WORDS, TARGETS = 16, 6, 4, 5, 7, 36, 27
Arrays = Any


class Case(NamedTuple):
    """A model to train.

    Attributes:
        make: makes the model.
        inputs: from a random generator to a batch of inputs.
        loss: the loss.
        target: from the generator and the shape of the output to targets; None for
            integers below the last axis.
    """

    make: Callable[[], keras.Model]
    inputs: Callable[[np.random.Generator], Arrays]
    loss: Any = "crossentropy"
    target: Any = None


def _ids(rng: np.random.Generator, size: int, *shape: int) -> np.ndarray:
    """Returns ids from 1, with padding at the end of every third row."""
    found = rng.integers(1, size, shape).astype("int32")
    found[::3, ..., -1] = 0
    return found


def _story(rng: np.random.Generator) -> Arrays:
    return {"story": _ids(rng, WORDS, B, M, L), "question": _ids(rng, WORDS, B, L)}


def _facts(rng: np.random.Generator) -> Arrays:
    facts = np.stack([rng.permutation(M)[:2] for _ in range(B)]).astype("int32")
    return {**_story(rng), "supporting_facts": facts}


def _fact_targets(rng: np.random.Generator, inputs: Arrays) -> Arrays:
    answers = rng.integers(1, WORDS, B).astype("int32")
    return {"facts": inputs["supporting_facts"], "answer": answers}


def _triples(rng: np.random.Generator) -> Arrays:
    keys = np.stack([rng.integers(1, M + 2, (B, M)), rng.integers(1, 8, (B, M))], -1)
    values = np.stack([rng.permutation(M) + 2 for _ in range(B)])
    return {
        "question": _ids(rng, WORDS, B, L),
        "keys": keys.astype("int32"),
        "values": values.astype("int32"),
    }


def _pairs(rng: np.random.Generator) -> Arrays:
    target = rng.integers(1, TARGETS, (B, T)).astype("int32")
    return {"source": _ids(rng, WORDS, B, S), "target": target}


def _text(rng: np.random.Generator) -> Arrays:
    return {"tokens": _ids(rng, WORDS, B, T)}


def _gaps(rng: np.random.Generator) -> Arrays:
    places = rng.integers(0, T, (B, 2)).astype("int32")
    return {**_text(rng), "mask_positions": places}


def _images(rng: np.random.Generator) -> Arrays:
    image = rng.normal(size=(B, 8, 8, 3)).astype("float32")
    return {"image": image, "target": _pairs(rng)["target"]}


def _around(rng: np.random.Generator) -> Arrays:
    center, context = rng.integers(0, WORDS, B), rng.integers(0, WORDS, (B, S))
    return {"center": center.astype("int32"), "context": context.astype("int32")}


def _rated(rng: np.random.Generator) -> Arrays:
    user, item = rng.integers(0, 12, B), rng.integers(0, 20, B)
    return {"user": user.astype("int32"), "item": item.astype("int32")}


def _history(rng: np.random.Generator) -> Arrays:
    mask = np.ones((B, S), bool)
    mask[::3, 2:] = False
    return {
        "item": rng.integers(0, WORDS, B).astype("int32"),
        "history": rng.integers(0, WORDS, (B, S)).astype("int32"),
        "history_ratings": rng.uniform(1, 5, (B, S)).astype("float32"),
        "history_mask": mask,
    }


def _bags(rng: np.random.Generator) -> Arrays:
    mask = np.ones((B, S), bool)
    mask[::3, 4:] = False
    instances = rng.normal(size=(B, S, 12)).astype("float32")
    return {"instances": instances, "instances_mask": mask}


def _steps(rng: np.random.Generator) -> Arrays:
    inputs = rng.normal(size=(B, T, 8)).astype("float32")
    return {"inputs": inputs, "answer_mask": np.ones((B, T), bool)}


def _step_words(rng: np.random.Generator) -> Arrays:
    return {**_steps(rng), "inputs": rng.integers(1, WORDS, (B, T)).astype("int32")}


def _vectors(rng: np.random.Generator) -> Arrays:
    return rng.normal(size=(B, 16)).astype("float32")


def _lstm_network() -> keras.Model:
    cell = layers.DNCCell(keras.layers.LSTMCell(16), 8, 4, read_heads=2)
    return models.DNCNetwork(cell, 6, input_dim=8)


def _word_network() -> keras.Model:
    cell = layers.NTMCell(keras.layers.GRUCell(16), 8, 4)
    return models.DNCNetwork(cell, 6, vocabulary_size=WORDS, embedding_dim=8)


def _replayed() -> keras.Model:
    return recorded(models.MemN2N(WORDS, 16, memory_size=8))


def _own_model() -> keras.Model:
    """Returns a user's model: stored patterns between layers of Keras."""
    inputs = keras.Input((16,))
    x = keras.layers.Dense(24, activation="relu")(inputs)
    x = layers.HopfieldLayer(12, num_heads=1, separate_values=True)(x)
    return keras.Model(inputs, keras.layers.Dense(5)(x))


_BLOCKS: dict[str, Any] = {
    "num_layers": 2,
    "dim": 16,
    "num_heads": 4,
    "intermediate_dim": 32,
    "dropout": 0.0,
}
_GATED: dict[str, Any] = {
    "normalization": "rms",
    "gated": True,
    "attention": {"num_key_value_heads": 2, "use_bias": False},
}
_RATING = {"loss": "mse", "target": "number"}

CASES: dict[str, Case] = {
    "MemN2N": Case(partial(models.MemN2N, WORDS, 16, memory_size=8), _story),
    "MemN2N, layer-wise": Case(
        partial(models.MemN2N, WORDS, 16, memory_size=8, tying="layer_wise"), _story
    ),
    "RecordedModel": Case(_replayed, _story),
    "KeyValueMemNN": Case(
        partial(models.KeyValueMemNN, WORDS, 8, 16, hops=2, memory_size=M), _triples
    ),
    "MemNN": Case(
        partial(models.MemNN, WORDS, 16),
        _facts,
        {name: SupportingFactLoss(margin=0.1) for name in ("facts", "answer")},
        _fact_targets,
    ),
    "Seq2Seq": Case(
        partial(models.Seq2Seq, WORDS, TARGETS, embedding_dim=8, units=16), _pairs
    ),
    "Seq2Seq, Luong": Case(
        partial(
            models.Seq2Seq,
            WORDS,
            TARGETS,
            embedding_dim=8,
            units=16,
            cell="lstm",
            attention="luong",
            bidirectional=False,
        ),
        _pairs,
    ),
    "ImageCaptioner": Case(
        partial(
            models.ImageCaptioner, (8, 8, 3), TARGETS, 8, units=16, filters=(8, 12)
        ),
        _images,
    ),
    "TransformerClassifier": Case(
        partial(models.TransformerClassifier, WORDS, 3, **_BLOCKS), _text
    ),
    "TransformerClassifier, relative": Case(
        partial(models.TransformerClassifier, WORDS, 3, position="relative", **_BLOCKS),
        _text,
    ),
    "UniversalTransformer": Case(
        partial(
            models.UniversalTransformer,
            WORDS,
            16,
            num_heads=4,
            steps=2,
            halting="adaptive",
            memory_size=8,
            position="learned",
            dropout=0.0,
        ),
        _story,
    ),
    "SkipGram": Case(
        partial(models.SkipGram, WORDS, 16), _around, "binary_crossentropy", "bits"
    ),
    "WordRNN": Case(partial(models.WordRNN, WORDS, 8, 16, num_layers=2), _text),
    "WordRNN, tied": Case(
        partial(models.WordRNN, WORDS, 16, 16, cell="gru", tie_embeddings=True), _text
    ),
    "MatrixFactorization": Case(
        partial(models.MatrixFactorization, 12, 20, 8), _rated, **_RATING
    ),
    "AttentiveFactorization": Case(
        partial(models.AttentiveFactorization, WORDS, 8), _history, **_RATING
    ),
    "CausalLM": Case(
        partial(models.CausalLM, WORDS, max_length=8, **_BLOCKS),
        _text,
    ),
    "CausalLM, rotary": Case(
        partial(
            models.CausalLM,
            WORDS,
            position="rotary",
            tie_embeddings=False,
            block=_GATED,
            **_BLOCKS,
        ),
        _text,
    ),
    "MaskedLM": Case(partial(models.MaskedLM, WORDS, max_length=8, **_BLOCKS), _gaps),
    "Transformer": Case(partial(models.Transformer, WORDS, TARGETS, **_BLOCKS), _pairs),
    "Transformer, tied": Case(
        partial(
            models.Transformer,
            WORDS,
            WORDS,
            position="rotary",
            tie_embeddings="all",
            **_BLOCKS,
        ),
        _pairs,
    ),
    "HopfieldClassifier": Case(
        partial(models.HopfieldClassifier, 12, 3, (16, 8), num_heads=4, key_dim=4),
        _bags,
    ),
    "DNCNetwork": Case(_lstm_network, _steps),
    "DNCNetwork, NTM": Case(_word_network, _step_words),
    "HopfieldLayer": Case(_own_model, _vectors),
}


def _large_network() -> keras.Model:
    cell = layers.DNCCell(keras.layers.LSTMCell(256), 256, 64, read_heads=4)
    return models.DNCNetwork(cell, 160, vocabulary_size=160, embedding_dim=64)


# With the defaults of the models, except vocabularies and where a comment says so.
SIZES: dict[str, Callable[[], keras.Model]] = {
    "CausalLM": partial(models.CausalLM, 32_000, num_heads=8),
    "Transformer": partial(models.Transformer, 8_000, 8_000, num_heads=8),
    "MemN2N": partial(models.MemN2N, 177),  # bAbI, all tasks
    "HopfieldClassifier": partial(models.HopfieldClassifier, 200),
    "DNCNetwork": _large_network,  # bAbI, as in the paper
    "Seq2Seq": partial(models.Seq2Seq, 10_000, 10_000),
}


def loss_of(case: Case) -> Any:
    """Returns the loss of a case: cross-entropy of logits, or what it names."""
    if case.loss == "crossentropy":
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if case.loss == "binary_crossentropy":
        return keras.losses.BinaryCrossentropy(from_logits=True)
    return case.loss


def data_of(case: Case, shape: tuple) -> tuple[Arrays, Arrays]:
    """Returns a batch of inputs and targets for an output of this shape."""
    rng = np.random.default_rng(0)
    inputs = case.inputs(rng)
    if callable(case.target):
        return inputs, case.target(rng, inputs)
    if case.target == "number":
        return inputs, rng.uniform(1, 5, (B, 1)).astype("float32")
    if case.target == "bits":
        return inputs, rng.integers(0, 2, (B, *shape[1:])).astype("float32")
    return inputs, rng.integers(0, shape[-1], (B, *shape[1:-1])).astype("int32")
