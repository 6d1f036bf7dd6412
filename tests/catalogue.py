"""One row per public layer and model: how to make it and what it must keep to.

`test_contract.py` walks the rows on each backend. A new layer is a new row; a bug
that was found is a new column. Sizes are unequal primes, so that axes that are mixed
up show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from keras_attention import layers, models

B, T, S, D, V, U = 2, 3, 5, 7, 11, 13  # batch, queries, keys, widths, units
M, L, WORDS = 5, 3, 17  # memory slots, words of a sentence, vocabulary

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Row:
    """What the contract suite has to know of one public class.

    Attributes:
        name: the row's name.
        cls: the class.
        arguments: constructor arguments; over all rows of a class each argument takes
            a value that is not its default. Callables make a layer.
        inputs: from a random generator to the call's arguments by name.
        unknown: for each input, the axes that may be unknown when a model is built;
            by default all but the last.
        call: how to call it with tensors by name; by default `layer(**tensors)`.
        attention: whether it has the family's call signature.
        trains: whether it has weights to train.
        masked: from inputs to (inputs, inputs) that differ only in what is masked.
        hidden: from inputs to inputs of which the first sample is masked throughout.
        output_mask: from inputs to the mask that the output must carry.
    """

    name: str
    cls: type
    arguments: dict[str, Any]
    inputs: Callable[[np.random.Generator], Arrays]
    unknown: dict[str, tuple[int, ...]] = field(default_factory=dict)
    attention: bool = False
    trains: bool = False
    masked: Callable[[Arrays], tuple[Arrays, Arrays]] | None = None
    hidden: Callable[[Arrays], Arrays] | None = None
    output_mask: Callable[[Arrays], np.ndarray] | None = None

    def make(self, **more: Any) -> Any:
        """A new one; layers among the arguments are made anew, in its dtype."""
        given = {
            name: value(dtype=more.get("dtype")) if callable(value) else value
            for name, value in self.arguments.items()
        }
        return self.cls(**{**given, **more})

    @property
    def is_model(self) -> bool:
        return self.cls.__module__.startswith("keras_attention.models")

    def call(self, made: Any, tensors: dict[str, Any], **more: Any) -> Any:
        if self.is_model:
            return made(dict(tensors), **more)
        tensors = dict(tensors)
        # Keras takes the mask of an output from the first argument by position.
        first = next(iter(tensors))
        return made(tensors.pop(first), **tensors, **more)


def _floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype("float32")


def _pair(rng: np.random.Generator) -> Arrays:
    """A query and keys of one width."""
    return {"query": _floats(rng, B, T, D), "key": _floats(rng, B, S, D)}


def _unequal_pair(rng: np.random.Generator) -> Arrays:
    return {"query": _floats(rng, B, T, D), "key": _floats(rng, B, S, V)}


def _memory(rng: np.random.Generator) -> Arrays:
    """Query, value, key and a mask of the value that leaves something to each."""
    mask = np.ones((B, S), bool)
    mask[0, 1] = mask[1, 3:] = False
    return {
        "query": _floats(rng, B, T, D),
        "value": _floats(rng, B, S, V),
        "key": _floats(rng, B, S, D),
        "value_mask": mask,
    }


def _unequal_memory(rng: np.random.Generator) -> Arrays:
    return {**_memory(rng), "key": _floats(rng, B, S, U)}


def _hop(rng: np.random.Generator) -> Arrays:
    """A state, and input and output memories of its width."""
    return {
        **_memory(rng),
        "value": _floats(rng, B, S, D),
        "query": _floats(rng, B, D),
    }


def _change_masked(inputs: Arrays) -> tuple[Arrays, Arrays]:
    changed = dict(inputs)
    for name in ("value", "key"):
        changed[name] = np.where(
            inputs["value_mask"][:, :, None], inputs[name], np.float32(1e4)
        )
    return inputs, changed


def _hide_all(inputs: Arrays) -> Arrays:
    mask = inputs["value_mask"].copy()
    mask[0] = False
    return {**inputs, "value_mask": mask}


def _sentences(rng: np.random.Generator) -> np.ndarray:
    story = rng.integers(1, WORDS, (B, M, L)).astype("int32")
    story[0, 1, 2:] = story[1, 3:] = 0  # a short sentence; two empty slots
    return story


def _tokens(rng: np.random.Generator) -> Arrays:
    return {"inputs": _sentences(rng)}


def _questions(rng: np.random.Generator) -> Arrays:
    question = rng.integers(1, WORDS, (B, L)).astype("int32")
    return {"story": _sentences(rng), "question": question}


def _pad_story(inputs: Arrays) -> tuple[Arrays, Arrays]:
    """More empty slots and more padding in each sentence."""
    story = np.pad(inputs["story"], ((0, 0), (0, 2), (0, 1)))
    return inputs, {**inputs, "story": story}


def _no_story(inputs: Arrays) -> Arrays:
    story = inputs["story"].copy()
    story[0] = 0
    return {**inputs, "story": story}


def _no_words(inputs: Arrays) -> Arrays:
    return {"inputs": _no_story({"story": inputs["inputs"]})["story"]}


def _filled(inputs: Arrays) -> np.ndarray:
    return (inputs["inputs"] != 0).any(-1)


_ATTENTION = {"attention": True, "masked": _change_masked, "hidden": _hide_all}
_ANY_LENGTH = {"story": (0, 1, 2), "question": (0, 1)}

ROWS = [
    Row("dot_score", layers.DotScore, {"scaled": True}, _pair),
    Row("cosine_score", layers.CosineScore, {"scale": 3.0}, _pair),
    Row("rbf_score", layers.RBFScore, {"gamma": 0.3}, _pair),
    Row(
        "general_score",
        layers.GeneralScore,
        {"kernel_initializer": "he_normal"},
        _unequal_pair,
        trains=True,
    ),
    Row(
        "additive_score",
        layers.AdditiveScore,
        {"units": U, "use_bias": False, "kernel_initializer": "he_normal"},
        _unequal_pair,
        trains=True,
    ),
    Row(
        "concat_score",
        layers.ConcatScore,
        {"units": U, "kernel_initializer": "he_normal"},
        _unequal_pair,
        trains=True,
    ),
    Row("attention", layers.Attention, {}, _memory, **_ATTENTION),
    Row(
        "attention_additive",
        layers.Attention,
        {
            "score": partial(layers.AdditiveScore, U),
            "normalizer": "entmax15",
            "dropout": 0.3,
            "seed": 1,
        },
        _unequal_memory,
        trains=True,
        **_ATTENTION,
    ),
    Row(
        "attention_general",
        layers.Attention,
        {"score": "general"},
        _unequal_memory,
        trains=True,
        **_ATTENTION,
    ),
    Row(
        "sentence_encoder",
        layers.SentenceEncoder,
        {
            "vocabulary_size": WORDS,
            "embedding_dim": D,
            "sentence_length": 4,
            "embeddings_initializer": "he_normal",
        },
        _tokens,
        unknown={"inputs": (0, 1, 2)},
        trains=True,
        hidden=_no_words,
        output_mask=_filled,
    ),
    Row(
        "sentence_encoder_bag",
        layers.SentenceEncoder,
        {"vocabulary_size": WORDS, "embedding_dim": D, "encoding": "bag"},
        _tokens,
        unknown={"inputs": (0, 1, 2)},
        trains=True,
        hidden=_no_words,
        output_mask=_filled,
    ),
    Row(
        "memory_age",
        layers.MemoryAge,
        {"memory_size": M, "noise": 0.3, "seed": 1},
        _tokens,
        unknown={"inputs": (0, 1, 2)},
    ),
    Row("memory_hop", layers.MemoryHop, {}, _hop, **_ATTENTION),
    Row(
        "memory_hop_linear",
        layers.MemoryHop,
        {
            "transform": True,
            "activation": "tanh",
            "normalizer": "softmax1",
            "linear_start": True,
            "kernel_initializer": "he_normal",
        },
        _hop,
        trains=True,
        **_ATTENTION,
    ),
    Row(
        "memn2n",
        models.MemN2N,
        {"vocabulary_size": WORDS, "embedding_dim": D},
        _questions,
        unknown=_ANY_LENGTH,
        trains=True,
        masked=_pad_story,
        hidden=_no_story,
    ),
    Row(
        "memn2n_layer_wise",
        models.MemN2N,
        {
            "vocabulary_size": WORDS,
            "embedding_dim": D,
            "hops": 2,
            "memory_size": M,
            "tying": "layer_wise",
            "encoding": "bag",
            "normalizer": "softmax1",
            "time_noise": 0.3,
            "linear_start": True,
            "activation": "tanh",
        },
        _questions,
        unknown=_ANY_LENGTH,
        trains=True,
        masked=_pad_story,
        hidden=_no_story,
    ),
]


def by_name(name: str) -> Row:
    return next(row for row in ROWS if row.name == name)
