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

import keras
import numpy as np

from keras_attention import layers, models

B, T, S, D, V, U = 2, 3, 5, 7, 11, 13  # batch, queries, keys, widths, units
M, L, WORDS = 5, 3, 17  # memory slots, words of a sentence, vocabulary
RELATIONS = 11

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
        heads: whether it projects values, so that its weights times the values are not
            what it returns.
        residual: whether it adds what it finds to the query, so that what it returns
            is not 0 where there is nothing to attend to.
        trains: whether it has weights to train.
        recurrent: whether it draws orthogonal weights, as Keras' recurrent layers do,
            which no backend can in every half precision.
        masked: from inputs to (inputs, inputs) that differ only in what is masked.
        hidden: from inputs to inputs of which one sample is masked throughout; with
            `attention`, the first.
        output_mask: from inputs to the mask that the output must carry.
        chosen_by: a seed of weights, drawn by NumPy, with which the best keys are far
            ahead: half precision must choose the same.
    """

    name: str
    cls: type
    arguments: dict[str, Any]
    inputs: Callable[[np.random.Generator], Arrays]
    unknown: dict[str, tuple[int, ...]] = field(default_factory=dict)
    attention: bool = False
    heads: bool = False
    residual: bool = False
    trains: bool = False
    recurrent: bool = False
    masked: Callable[[Arrays], tuple[Arrays, Arrays]] | None = None
    hidden: Callable[[Arrays], Arrays] | None = None
    output_mask: Callable[[Arrays], np.ndarray] | None = None
    chosen_by: int | None = None

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


@dataclass(frozen=True)
class OutputRow(Row):
    """A row about one output of what returns a dict of them.

    A model, too, is called as a layer in another model, so that there is one output.

    Attributes:
        output: the output's name.
    """

    output: Any = ""

    @property
    def is_model(self) -> bool:
        return False

    def call(self, made: Any, tensors: dict[str, Any], **more: Any) -> Any:
        if super().is_model:
            return made(dict(tensors), **more)[self.output]
        return super().call(made, tensors, **more)[self.output]


@dataclass(frozen=True)
class WrappedRow(Row):
    """A row about a model that is not functional, called inside another model."""

    @property
    def is_model(self) -> bool:
        return False

    def call(self, made: Any, tensors: dict[str, Any], **more: Any) -> Any:
        return made(dict(tensors), **more)


@dataclass(frozen=True)
class CellRow(Row):
    """A row about a cell: its inputs and its states are tensors of one step."""

    def call(self, made: Any, tensors: dict[str, Any], **more: Any) -> Any:
        states = [x for name, x in tensors.items() if name != "inputs"]
        return made(tensors["inputs"], states, **more)[0]


@dataclass(frozen=True)
class MemoryRow(Row):
    """A row about a memory that has patterns, in another model as a layer.

    Alone it is no functional model, which its patterns would have to fit.
    """

    @property
    def is_model(self) -> bool:
        return False

    def make(self, **more: Any) -> Any:
        made = super().make(**more)
        made.store(_patterns(np.random.default_rng(2)))
        return made


def _floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype("float32")


def _patterns(rng: np.random.Generator) -> np.ndarray:
    return _floats(rng, V, D)


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


def _each(rng: np.random.Generator) -> Arrays:
    return {"inputs": _floats(rng, B, T, D)}


def _block(rng: np.random.Generator) -> Arrays:
    """What goes through a block of three or six heads; the second's end is padding."""
    mask = np.ones((B, T), bool)
    mask[1, 2:] = False
    return {"inputs": _floats(rng, B, T, 12), "mask": mask}


def _decoder_block(rng: np.random.Generator) -> Arrays:
    mask = np.ones((B, S), bool)
    mask[0, 1] = mask[1, 3:] = False
    return {
        "inputs": _floats(rng, B, T, 12),
        "memory": _floats(rng, B, S, V),
        "memory_mask": mask,
    }


def _hide_sample(inputs: Arrays) -> Arrays:
    return {**inputs, "mask": inputs["mask"] & (np.arange(B) > 0)[:, None]}


def _change_members(inputs: Arrays) -> tuple[Arrays, Arrays]:
    is_valid = inputs["mask"][:, :, None]
    changed = np.where(is_valid, inputs["inputs"], np.float32(1e3))
    return inputs, {**inputs, "inputs": changed}


def _bags(rng: np.random.Generator) -> Arrays:
    """Bags of five and of three instances."""
    mask = np.ones((B, S), bool)
    mask[1, 3:] = False
    return {"instances": _floats(rng, B, S, D), "instances_mask": mask}


def _change_instances(inputs: Arrays) -> tuple[Arrays, Arrays]:
    is_valid = inputs["instances_mask"][:, :, None]
    changed = np.where(is_valid, inputs["instances"], np.float32(1e3))
    return inputs, {**inputs, "instances": changed}


def _empty_bag(inputs: Arrays) -> Arrays:
    mask = inputs["instances_mask"] & (np.arange(B) < 1)[:, None]  # five are left
    return {**inputs, "instances_mask": mask}


def _hide_memory(inputs: Arrays) -> Arrays:
    mask = inputs["memory_mask"] & (np.arange(B) > 0)[:, None]
    return {**inputs, "memory_mask": mask}


def _change_memory(inputs: Arrays) -> tuple[Arrays, Arrays]:
    is_valid = inputs["memory_mask"][:, :, None]
    changed = np.where(is_valid, inputs["memory"], np.float32(1e3))
    return inputs, {**inputs, "memory": changed}


def _asked(rng: np.random.Generator) -> Arrays:
    """Vectors, and steps to answer at: two of the first sequence, all of the second."""
    mask = np.ones((B, S), bool)
    mask[0, [0, 1, 4]] = False
    return {"inputs": _floats(rng, B, S, D), "answer_mask": mask}


def _asked_words(rng: np.random.Generator) -> Arrays:
    """The same of tokens, of which the last of the second sequence is padding."""
    tokens = rng.integers(1, WORDS, (B, S)).astype("int32")
    tokens[1, 4] = 0
    mask = _asked(rng)["answer_mask"]
    mask[1, 4] = False
    return {"inputs": tokens, "answer_mask": mask}


def _change_behind(inputs: Arrays) -> tuple[Arrays, Arrays]:
    """Vectors behind the last step of the first sequence to answer at."""
    changed = inputs["inputs"].copy()
    changed[0, 4] = 1e3
    return inputs, {**inputs, "inputs": changed}


def _asked_at(inputs: Arrays) -> np.ndarray:
    return inputs["answer_mask"]


def _heads(rng: np.random.Generator) -> Arrays:
    """Queries of two heads."""
    return {"inputs": _floats(rng, B, T, 2, 6)}


def _scores(rng: np.random.Generator) -> Arrays:
    """Scores of three heads."""
    return {"scores": _floats(rng, B, 3, T, S)}


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


def _triples(rng: np.random.Generator) -> Arrays:
    """Questions and facts of entities 1 … M; the second memory has an empty slot."""
    keys = np.stack(
        [rng.integers(1, M + 2, (B, M)), rng.integers(1, RELATIONS, (B, M))], -1
    )
    values = np.stack([rng.permutation(M) + 2 for _ in range(B)])
    keys[:, :2, 0] = 1  # facts about the question's entity
    keys[1, 3] = values[1, 3] = 0
    return {
        "question": rng.integers(1, WORDS, (B, L)).astype("int32"),
        "keys": keys.astype("int32"),
        "values": values.astype("int32"),
    }


def _fill_empty_slots(inputs: Arrays) -> tuple[Arrays, Arrays]:
    """Keys in slots without a value, and a longer question."""
    empty = inputs["values"][:, :, None] == 0
    keys = np.where(empty, np.int32(1), inputs["keys"])
    question = np.pad(inputs["question"], ((0, 0), (0, 1)))
    return inputs, {**inputs, "question": question, "keys": keys}


def _no_facts(inputs: Arrays) -> Arrays:
    values = inputs["values"].copy()
    values[0] = 0
    return {**inputs, "values": values}


def _records(rng: np.random.Generator) -> Arrays:
    """A question and a memory of M records, each a time and L features."""
    times = np.broadcast_to(np.arange(1, M + 1)[None, :, None], (B, M, 1))
    features = rng.integers(1, WORDS, (B, M, L))
    return {
        "question": rng.integers(1, WORDS, (B, L)).astype("int32"),
        "memory": np.concatenate([times, features], axis=-1).astype("int32"),
    }


def _supported(rng: np.random.Generator) -> Arrays:
    """Records, and the two of them that are to be found."""
    facts = np.stack([rng.permutation(M)[:2] for _ in range(B)])
    return {**_records(rng), "supporting_facts": facts.astype("int32")}


def _found(rng: np.random.Generator) -> Arrays:
    return {**_records(rng), "found": np.array([[3, 0], [1, -1]], "int32")}


def _candidates(rng: np.random.Generator) -> Arrays:
    return {"inputs": _records(rng)["question"]}


KNOWN = 12  # the first of the WORDS; the others are new words


def _contexts(rng: np.random.Generator, memory: np.ndarray) -> np.ndarray:
    """Neighbours of the new words in the sentences of records."""
    fields = rng.integers(0, KNOWN, (*memory[:, :, 1:].shape, 3))
    fields[..., 0] = np.maximum(memory[:, :, 1:] - KNOWN + 1, 0)
    return np.where(fields[..., :1], fields, 0).astype("int32")


def _supported_new(rng: np.random.Generator) -> Arrays:
    inputs = _supported(rng)
    inputs["memory"][:, 0, 1:] = inputs["question"]
    return {**inputs, "contexts": _contexts(rng, inputs["memory"])}


def _found_new(rng: np.random.Generator) -> Arrays:
    inputs = _found(rng)
    # No word is missing: its score would be that of a hidden one.
    inputs["memory"][:, :2, 1:] = np.resize(np.arange(KNOWN, WORDS), (2, L))
    inputs["memory"][:, 2:, 1] = 3
    return {**inputs, "contexts": _contexts(rng, inputs["memory"])}


def _told(rng: np.random.Generator) -> Arrays:
    """Full stories, questions and their supporting facts."""
    inputs = _supported(rng)
    return {
        "story": inputs["memory"][:, :, 1:],
        "question": inputs["question"],
        "supporting_facts": inputs["supporting_facts"],
    }


def _told_new(rng: np.random.Generator) -> Arrays:
    return {**_told(rng), "story": _found_new(rng)["memory"][:, :, 1:]}


def _told_less(rng: np.random.Generator) -> Arrays:
    """The same with empty slots, and of one question a single supporting fact."""
    facts = np.array([[2, 0], [1, -1]], "int32")
    return {**_told(rng), "story": _sentences(rng), "supporting_facts": facts}


def _sequence(rng: np.random.Generator) -> Arrays:
    """A sequence, and a memory of which something is hidden."""
    mask = np.ones((B, S), bool)
    mask[0, 1] = mask[1, 3:] = False
    return {
        "inputs": _floats(rng, B, T, D),
        "memory": _floats(rng, B, S, V),
        "memory_mask": mask,
    }


def _change_memory(inputs: Arrays) -> tuple[Arrays, Arrays]:
    mask = inputs["memory_mask"][:, :, None]
    changed = np.where(mask, inputs["memory"], np.float32(1e4))
    return inputs, {**inputs, "memory": changed}


def _no_memory(inputs: Arrays) -> Arrays:
    mask = inputs["memory_mask"].copy()
    mask[0] = False
    return {**inputs, "memory_mask": mask}


def _to_be_written(rng: np.random.Generator) -> Arrays:
    """Words of a target, and a memory of which something is hidden."""
    inputs = _sequence(rng)
    target = rng.integers(1, WORDS, (B, T)).astype("int32")
    return {"target": target, **{k: inputs[k] for k in ("memory", "memory_mask")}}


def _chosen(rng: np.random.Generator) -> Arrays:
    """Logits of words, and what a hard attention looked at for each."""
    weights = np.eye(S, dtype="float32")[rng.integers(0, S, (B, T))]
    return {"logits": _floats(rng, B, T, U), "weights": weights}


def _sentence_pairs(rng: np.random.Generator) -> Arrays:
    source = rng.integers(1, WORDS, (B, S)).astype("int32")
    source[1, 3:] = 0
    return {"source": source, "target": rng.integers(1, U, (B, T)).astype("int32")}


def _texts(rng: np.random.Generator) -> Arrays:
    return {"tokens": _sentence_pairs(rng)["source"]}


def _pad_sentences(inputs: Arrays) -> tuple[Arrays, Arrays]:
    return inputs, {"tokens": np.pad(inputs["tokens"], ((0, 0), (0, 2)))}


def _no_sentence(inputs: Arrays) -> Arrays:
    tokens = inputs["tokens"].copy()
    tokens[0] = 0
    return {"tokens": tokens}


def _gaps(rng: np.random.Generator) -> Arrays:
    """Sentences, and places in them; not all of a row are different."""
    tokens = _texts(rng)["tokens"]
    places = rng.integers(0, tokens.shape[1], (B, T)).astype("int32")
    return {"tokens": tokens, "mask_positions": places}


def _pad_gaps(inputs: Arrays) -> tuple[Arrays, Arrays]:
    return inputs, {**inputs, "tokens": np.pad(inputs["tokens"], ((0, 0), (0, 2)))}


def _no_gaps(inputs: Arrays) -> Arrays:
    return {**inputs, **_no_sentence(inputs)}


def _pad_source(inputs: Arrays) -> tuple[Arrays, Arrays]:
    return inputs, {**inputs, "source": np.pad(inputs["source"], ((0, 0), (0, 2)))}


def _no_source(inputs: Arrays) -> Arrays:
    source = inputs["source"].copy()
    source[0] = 0
    return {**inputs, "source": source}


def _around(rng: np.random.Generator) -> Arrays:
    """Words, and for each one that stood near it and some that did not."""
    center, context = rng.integers(0, WORDS, B), rng.integers(0, WORDS, (B, S))
    return {"center": center.astype("int32"), "context": context.astype("int32")}


def _rows_around(rng: np.random.Generator) -> Arrays:
    """Rows of words, and the words that each row stands among."""
    center, context = rng.integers(0, WORDS, (B, T)), rng.integers(0, WORDS, (B, S))
    return {"center": center.astype("int32"), "context": context.astype("int32")}


def _rated(rng: np.random.Generator) -> Arrays:
    """Users and items, by number."""
    user, item = rng.integers(0, S, B), rng.integers(0, D, B)
    return {"user": user.astype("int32"), "item": item.astype("int32")}


def _history(rng: np.random.Generator) -> Arrays:
    """Items, and what their users said of others; the second of some alone."""
    mask = np.ones((B, S), bool)
    mask[1, 2:] = False
    return {
        "item": rng.integers(0, WORDS, B).astype("int32"),
        "history": rng.integers(0, WORDS, (B, S)).astype("int32"),
        "history_ratings": rng.uniform(1, 5, (B, S)).astype("float32"),
        "history_mask": mask,
    }


def _change_history(inputs: Arrays) -> tuple[Arrays, Arrays]:
    is_valid = inputs["history_mask"]
    other = {"history": WORDS - 1 - inputs["history"]}
    other["history_ratings"] = inputs["history_ratings"] + 1
    changed = {k: np.where(is_valid, inputs[k], x) for k, x in other.items()}
    return inputs, {**inputs, **changed}


def _no_history(inputs: Arrays) -> Arrays:
    mask = inputs["history_mask"].copy()
    mask[1] = False  # the other's is so long that dropout leaves some of it
    return {**inputs, "history_mask": mask}


def _memory_network(dtype: Any = None) -> Any:
    return models.MemN2N(WORDS, embedding_dim=D, dtype=dtype)


def _dot_attention(dtype: Any = None) -> Any:
    return layers.Attention("scaled_dot", dtype=dtype)


def _hopfield(dtype: Any = None) -> Any:
    return layers.Hopfield(2, update_steps=2, dtype=dtype)


def _head(dtype: Any = None) -> Any:
    return keras.Sequential(
        [
            keras.layers.Dense(6, activation="gelu", dtype=dtype, name="dense"),
            keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype, name="norm"),
        ],
        name="head",
    )


def _encoder_block(dtype: Any = None) -> Any:
    return layers.TransformerEncoderBlock(3, U, dropout=0.3, dtype=dtype)


def _halting(dtype: Any = None) -> Any:
    # A ponder cost would have a gradient where the loss of a sample has none. Where
    # all positions halt at once, the weights have none: rarer with a small bias.
    return layers.AdaptiveHalting(0.9, 0.0, initial_bias=-1.0, dtype=dtype)


def _gru_cell(dtype: Any = None) -> Any:
    return keras.layers.GRUCell(U, recurrent_initializer="he_normal", dtype=dtype)


def _lstm_cells(dtype: Any = None) -> Any:
    return [
        keras.layers.LSTMCell(n, recurrent_initializer="he_normal", dtype=dtype)
        for n in (3, U)
    ]


def _decoder(dtype: Any = None) -> Any:
    attention = layers.BahdanauAttention(U, dtype=dtype)
    cell = _gru_cell(dtype)
    return layers.AttentionRNN(cell, attention, return_sequences=True, dtype=dtype)


def _pictures(rng: np.random.Generator) -> Arrays:
    """Images of 5 by 7 pixels, and a caption of which the end is padding."""
    target = rng.integers(1, U, (B, T)).astype("int32")
    target[1, 2:] = 0
    return {"image": _floats(rng, B, 5, 7, 3), "target": target}


def _regions(rng: np.random.Generator) -> Arrays:
    """Features of unequal number, and captions."""
    features = _floats(rng, B, S, D)
    features[1, 3:] = 0
    return {"features": features, "target": _pictures(rng)["target"]}


def _pad_regions(inputs: Arrays) -> tuple[Arrays, Arrays]:
    more = np.pad(inputs["features"], ((0, 0), (0, 2), (0, 0)))
    return inputs, {**inputs, "features": more}


def _no_regions(inputs: Arrays) -> Arrays:
    features = inputs["features"].copy()
    features[0] = 0
    return {**inputs, "features": features}


_ATTENTION = {"attention": True, "masked": _change_masked, "hidden": _hide_all}
_HOP = {**_ATTENTION, "residual": True}
_HEADS = {**_ATTENTION, "heads": True}
_ANY_LENGTH = {"story": (0, 1, 2), "question": (0, 1)}
_ANY_QUESTION = {"question": (0, 1), "keys": (0,), "values": (0,)}


def _dnc_cell(dtype: Any = None, **more: Any) -> Any:
    cell = keras.layers.GRUCell(V, dtype=dtype)
    return layers.DNCCell(cell, M, dtype=dtype, **more)


def _ntm_cell(dtype: Any = None, **more: Any) -> Any:
    cell = keras.layers.LSTMCell(V, dtype=dtype)
    return layers.NTMCell(cell, M, dtype=dtype, **more)


def _steps(rng: np.random.Generator) -> Arrays:
    """A sequence of which the second's end is padding."""
    mask = np.ones((B, T), bool)
    mask[1, 2:] = False
    return {"inputs": _floats(rng, B, T, D), "mask": mask}


def _one_step(make: Callable, **arguments: Any) -> Callable:
    """What a cell takes at a step in the middle: inputs and states."""

    def inputs(rng: np.random.Generator) -> Arrays:
        sizes = make(**arguments).state_size
        states = [rng.uniform(0, 0.3, (B, n)).astype("float32") for n in sizes]
        named = {f"state_{n}": state for n, state in enumerate(states)}
        return {"inputs": _floats(rng, B, D), **named}

    return inputs


_DNC = {
    "word_width": 3,
    "read_heads": 2,
    "write_heads": 2,
    "output_units": U,
    "refinements": ["masked_keys", "layer_normalization", "sharp_links"],
    "clip": 5.0,
}
_LINKLESS = {"word_width": 3, "links": False, "bypass_dropout": 0.1}
_NTM = {
    "word_width": 3,
    "read_heads": 2,
    "write_heads": 2,
    "shifts": 2,
    "output_units": U,
    "clip": 5.0,
}

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
        "attention_pooling",
        layers.AttentionPooling,
        {
            "units": U,
            "dropout": 0.3,
            "kernel_initializer": "he_normal",
            "seed": 1,
        },
        _block,
        trains=True,
        masked=_change_members,
        hidden=_hide_sample,
    ),
    Row(
        "attention_pooling_heads",
        layers.AttentionPooling,
        {
            "score": partial(layers.AdditiveScore, U),
            "num_queries": 5,
            "normalizer": "softmax1",
            "num_heads": 3,
        },
        _block,
        trains=True,
        masked=_change_members,
        hidden=_hide_sample,
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
        "sentence_encoder_learned",
        layers.SentenceEncoder,
        {
            "vocabulary_size": WORDS,
            "embedding_dim": D,
            "encoding": "learned",
            "sentence_length": 2,  # the last word shares a mask
        },
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
    Row("memory_hop", layers.MemoryHop, {}, _hop, **_HOP),
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
        **_HOP,
    ),
    Row("memory_hop_null", layers.MemoryHop, {"slots": 7}, _hop, **_HOP),
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
    WrappedRow(
        "recorded_model",
        models.RecordedModel,
        {"model": _memory_network},
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
    Row(
        "memn2n_word",
        models.MemN2N,
        {
            "vocabulary_size": WORDS,
            "embedding_dim": D,
            "hops": 2,
            "memory_size": M,
            "encoding": "centered_position",
            "time": "word",
            "null_memories": False,
        },
        _questions,
        unknown=_ANY_LENGTH,
        trains=True,
        masked=_pad_story,
        hidden=_no_story,
    ),
    Row(
        "key_value_hop",
        layers.KeyValueHop,
        {},
        _hop,
        trains=True,
        **_HOP,
    ),
    Row(
        "key_value_hop_features",
        layers.KeyValueHop,
        {"features": 3, "normalizer": "softmax1", "kernel_initializer": "he_normal"},
        _hop,
        trains=True,
        **_HOP,
    ),
    Row(
        "key_value_memnn",
        models.KeyValueMemNN,
        {"vocabulary_size": WORDS, "relations": RELATIONS, "memory_size": M},
        _triples,
        unknown=_ANY_QUESTION,
        trains=True,
        masked=_fill_empty_slots,
        hidden=_no_facts,
    ),
    Row(
        "key_value_memnn_two_hops",
        models.KeyValueMemNN,
        {
            "vocabulary_size": WORDS,
            "relations": RELATIONS,
            "embedding_dim": D,
            "hops": 2,
            "memory_size": M,
            "encoding": "bag",
            "normalizer": "softmax1",
            "kernel_initializer": "he_normal",
        },
        _triples,
        unknown=_ANY_QUESTION,
        trains=True,
        masked=_fill_empty_slots,
        hidden=_no_facts,
    ),
    Row(
        "sentence_features",
        layers.SentenceFeatures,
        {"vocabulary_size": WORDS, "ngrams": 3, "buckets": 101},
        _tokens,
        unknown={"inputs": (0, 1, 2)},
    ),
    Row(
        "sentence_features_new_words",
        layers.SentenceFeatures,
        {"vocabulary_size": KNOWN, "ngrams": 2, "new_words": WORDS - KNOWN},
        _tokens,
        unknown={"inputs": (0, 1, 2)},
    ),
    Row(
        "word_contexts",
        layers.WordContexts,
        {"vocabulary_size": KNOWN, "new_words": WORDS - KNOWN},
        _tokens,
        unknown={"inputs": (0, 1, 2)},
    ),
    Row(
        "memory_writer",
        layers.MemoryWriter,
        {"nothing": WORDS},
        _tokens,
        unknown={"inputs": (0, 1, 2)},
    ),
    OutputRow(
        "fact_finder",
        layers.FactFinder,
        {"features": WORDS, "embedding_dim": D},
        _supported,
        trains=True,
        output="facts",
    ),
    OutputRow(
        "fact_finder_nonlinear",
        layers.FactFinder,
        {
            "features": WORDS,
            "embedding_dim": D,
            "supports": 2,
            "time": False,
            "nonlinear": True,
            "hop_versions": True,
        },
        _supported,
        trains=True,
        output="facts",
    ),
    OutputRow(
        "fact_finder_new_words",
        layers.FactFinder,
        {
            "features": KNOWN,
            "embedding_dim": D,
            "new_words": WORDS - KNOWN,
            "exact_match": True,
        },
        _supported_new,
        trains=True,
        output="facts",
    ),
    Row(
        "word_responder",
        layers.WordResponder,
        {
            "features": WORDS,
            "vocabulary_size": U,
            "embedding_dim": D,
            "supports": 2,
            "nonlinear": True,
            "hop_versions": True,
        },
        _found,
        trains=True,
    ),
    Row(
        "word_responder_new_words",
        layers.WordResponder,
        {
            "features": KNOWN,
            "vocabulary_size": V,
            "embedding_dim": D,
            "new_words": WORDS - KNOWN,
            "exact_match": True,
        },
        _found_new,
        trains=True,
    ),
    Row(
        "segmenter",
        layers.Segmenter,
        {"vocabulary_size": WORDS, "embedding_dim": D},
        _candidates,
        unknown={"inputs": (0, 1)},
        trains=True,
    ),
    # tests/models/memory_networks/test_memnn.py has what two outputs train together.
    OutputRow(
        "memnn",
        models.MemNN,
        {"vocabulary_size": WORDS, "embedding_dim": D},
        _told,
        unknown=_ANY_LENGTH,
        output="facts",
    ),
    OutputRow(
        "memnn_adaptive",
        models.MemNN,
        {
            "vocabulary_size": WORDS,
            "supports": 2,
            "time": False,
            "adaptive": True,
            "ngrams": 2,
            "buckets": 101,
            "nonlinear": True,
            "hop_versions": True,
        },
        _told_less,
        unknown=_ANY_LENGTH,
        masked=_pad_story,
        output="answer",
    ),
    OutputRow(
        "memnn_new_words",
        models.MemNN,
        {
            "vocabulary_size": KNOWN,
            "embedding_dim": D,
            "new_words": WORDS - KNOWN,
            "exact_match": True,
        },
        _told_new,
        unknown=_ANY_LENGTH,
        masked=_pad_story,
        output="answer",
    ),
    Row(
        "bahdanau_attention",
        layers.BahdanauAttention,
        {"units": U, "use_bias": False, "normalize": True, "normalizer": "sparsemax"},
        _unequal_memory,
        trains=True,
        **_ATTENTION,
    ),
    Row(
        "bahdanau_attention_coverage",
        layers.BahdanauAttention,
        {
            "units": U,
            "coverage": True,
            "dropout": 0.3,
            "exact": True,
            "kernel_initializer": "he_normal",
            "seed": 1,
        },
        _unequal_memory,
        trains=True,
        **_ATTENTION,
    ),
    Row(
        "location_score",
        layers.LocationScore,
        {"max_length": 7, "kernel_initializer": "he_normal"},
        _unequal_pair,
        trains=True,
    ),
    Row(
        "luong_attention",
        layers.LuongAttention,
        {"scale": True, "dropout": 0.3, "seed": 1},
        _unequal_memory,
        trains=True,
        **_ATTENTION,
    ),
    Row(
        "luong_attention_local_m",
        layers.LuongAttention,
        {
            "score": "location",
            "locality": "local-m",
            "window": 2,
            "max_length": 7,
            "kernel_initializer": "he_normal",
        },
        _unequal_memory,
        trains=True,
        **_ATTENTION,
    ),
    Row(
        "luong_attention_local_p",
        layers.LuongAttention,
        {
            "score": "concat",
            "locality": "local-p",
            "window": 3,
            "units": U,
            "normalizer": "entmax15",
        },
        _unequal_memory,
        trains=True,
        **_ATTENTION,
    ),
    # Biased, so that each walk stops somewhere.
    Row(
        "monotonic_attention",
        layers.MonotonicAttention,
        {"units": U, "score_bias": 3.0},
        _unequal_memory,
        trains=True,
        **_ATTENTION,
    ),
    Row(
        "monotonic_attention_recursive",
        layers.MonotonicAttention,
        {
            "score": "general",
            "mode": "recursive",
            "inference_mode": None,
            "sigmoid_noise": 0.3,
            "seed": 1,
        },
        _unequal_memory,
        trains=True,
        **_ATTENTION,
    ),
    Row(
        "additive_score_normalized",
        layers.AdditiveScore,
        {"units": U, "normalize": True, "exact": True},
        _unequal_pair,
        trains=True,
    ),
    Row(
        "concat_score_exact",
        layers.ConcatScore,
        {"units": U, "exact": True},
        _unequal_pair,
        trains=True,
    ),
    Row(
        "attention_rnn",
        layers.AttentionRNN,
        {
            "cell": _gru_cell,
            "attention": partial(layers.BahdanauAttention, U),
            "return_sequences": True,
        },
        _sequence,
        trains=True,
        masked=_change_memory,
        hidden=_no_memory,
    ),
    OutputRow(
        "attention_rnn_after",
        layers.AttentionRNN,
        {
            "cell": _lstm_cells,
            "attention": partial(layers.LuongAttention, "general"),
            "order": "after",
            "attention_units": D,
            "input_feeding": True,
            "return_state": True,
        },
        _sequence,
        trains=True,
        masked=_change_memory,
        hidden=_no_memory,
        output=0,
    ),
    CellRow(
        "dnc_cell",
        layers.DNCCell,
        {"cell": partial(keras.layers.GRUCell, V), "memory_slots": M, **_DNC},
        _one_step(_dnc_cell, **_DNC),
        trains=True,
        recurrent=True,
    ),
    CellRow(
        "dnc_cell_linkless",
        layers.DNCCell,
        {"cell": partial(keras.layers.GRUCell, V), "memory_slots": M, **_LINKLESS},
        _one_step(_dnc_cell, **_LINKLESS),
        recurrent=True,
    ),
    CellRow(
        "dnc_cell_more_slots",
        layers.DNCCell,
        {
            "cell": partial(keras.layers.GRUCell, V),
            "memory_slots": [M, 2],  # M₀ = 2
            **_DNC,
        },
        _one_step(_dnc_cell, **_DNC),
        recurrent=True,
    ),
    CellRow(
        "ntm_cell",
        layers.NTMCell,
        {"cell": partial(keras.layers.LSTMCell, V), "memory_slots": M, **_NTM},
        _one_step(_ntm_cell, **_NTM),
        trains=True,
        recurrent=True,
    ),
    Row(
        "dnc",
        layers.DNC,
        {
            "cell": partial(_dnc_cell, word_width=3, read_heads=2, links=2),
            "return_sequences": True,
            "checkpoint_steps": 3,  # all steps: TensorFlow traces each length once
        },
        _steps,
        trains=True,
        recurrent=True,
        masked=_change_members,
        hidden=_hide_sample,
    ),
    OutputRow(
        "dnc_state",
        layers.DNC,
        {"cell": partial(_ntm_cell, word_width=3), "return_state": True},
        _steps,
        trains=True,
        recurrent=True,
        masked=_change_members,
        hidden=_hide_sample,
        output=0,
    ),
    Row(
        "seq2seq",
        models.Seq2Seq,
        {
            "source_vocabulary_size": WORDS,
            "target_vocabulary_size": U,
            "embedding_dim": D,
            "units": V,
        },
        _sentence_pairs,
        unknown={"source": (0, 1), "target": (0, 1)},
        trains=True,
        recurrent=True,
        masked=_pad_source,
        hidden=_no_source,
    ),
    Row(
        "seq2seq_luong",
        models.Seq2Seq,
        {
            "source_vocabulary_size": WORDS,
            "target_vocabulary_size": U,
            "embedding_dim": D,
            "units": V,
            "cell": "lstm",
            "attention": "luong",
            "bidirectional": False,
            "dropout": 0.3,
        },
        _sentence_pairs,
        unknown={"source": (0, 1), "target": (0, 1)},
        trains=True,
        recurrent=True,
        masked=_pad_source,
        hidden=_no_source,
    ),
    Row(
        "hard_attention",
        layers.HardAttention,
        {"units": U, "seed": 1, "expected_rate": 0.5},
        _unequal_memory,
        trains=True,
        chosen_by=42,
        **_ATTENTION,
    ),
    # What its weights' loss trains is in tests/layers/attention/test_hard.py.
    Row(
        "hard_attention_reinforce",
        layers.HardAttention,
        {"score": "general", "estimator": "reinforce", "seed": 1},
        _unequal_memory,
        chosen_by=42,
        **_ATTENTION,
    ),
    Row("carry_choices", layers.CarryChoices, {"credit": "later"}, _chosen),
    Row(
        "scheduled_sampling",
        layers.ScheduledSampling,
        {
            "decoder": _decoder,
            "embedding": partial(keras.layers.Embedding, WORDS, D),
            "logits": partial(keras.layers.Dense, WORDS),
            "sampling_probability": 0.5,
            "choice": "argmax",
            "dropout": 0.3,
            "seed": 1,
        },
        _to_be_written,
        unknown={"target": (0, 1), "memory": (0, 1)},
        trains=True,
        masked=_change_memory,
        hidden=_no_memory,
    ),
    Row(
        "seq2seq_scheduled",
        models.Seq2Seq,
        {
            "source_vocabulary_size": WORDS,
            "target_vocabulary_size": U,
            "embedding_dim": D,
            "units": V,
            "sampling_probability": 0.25,
        },
        _sentence_pairs,
        unknown={"source": (0, 1), "target": (0, 1)},
        trains=True,
        recurrent=True,
        masked=_pad_source,
        hidden=_no_source,
    ),
    Row(
        "image_captioner",
        models.ImageCaptioner,
        {
            "image_shape": (5, 7, 3),
            "target_vocabulary_size": U,
            "embedding_dim": D,
            "units": V,
            "filters": (3, 5),
        },
        _pictures,
        unknown={"image": (0,), "target": (0, 1)},
        trains=True,
        recurrent=True,
    ),
    Row(
        "image_captioner_after",
        models.ImageCaptioner,
        {
            "image_shape": (5, 7, 3),
            "target_vocabulary_size": U,
            "embedding_dim": D,
            "units": V,
            "cell": "gru",
            "attention": partial(layers.BahdanauAttention, U),
            "order": "after",
            "dropout": 0.3,
            "encoder": partial(keras.layers.Conv2D, 5, 3, strides=2),
        },
        _pictures,
        unknown={"image": (0,), "target": (0, 1)},
        trains=True,
        recurrent=True,
    ),
    # Its penalty counts samples of weight 0, too: test_image_captioner.py.
    Row(
        "image_captioner_doubly_stochastic",
        models.ImageCaptioner,
        {
            "image_shape": (5, 7, 3),
            "target_vocabulary_size": U,
            "embedding_dim": D,
            "units": V,
            "filters": (3,),
            "doubly_stochastic": 0.5,
        },
        _pictures,
        unknown={"image": (0,), "target": (0, 1)},
        recurrent=True,
    ),
    Row(
        "image_captioner_features",
        models.ImageCaptioner,
        {
            "image_shape": (None, D),
            "target_vocabulary_size": U,
            "embedding_dim": D,
            "units": V,
            "encoder": None,
        },
        _regions,
        unknown={"features": (0, 1), "target": (0, 1)},
        trains=True,
        recurrent=True,
        masked=_pad_regions,
        hidden=_no_regions,
    ),
    # What its loss trains is in tests/models/recurrent/test_caption_features.py.
    Row(
        "image_captioner_hard",
        models.ImageCaptioner,
        {
            "image_shape": (None, D),
            "target_vocabulary_size": U,
            "embedding_dim": D,
            "units": V,
            "cell": "gru",
            "attention": partial(*(layers.HardAttention, None, U, "reinforce"), seed=1),
            "encoder": None,
        },
        _regions,
        unknown={"features": (0, 1), "target": (0, 1)},
        recurrent=True,
        masked=_pad_regions,
        hidden=_no_regions,
        chosen_by=42,
    ),
    Row("sine_position", layers.SinePositionEncoding, {"max_wavelength": 50.0}, _each),
    Row("rotary", layers.RotaryEmbedding, {"max_wavelength": 50.0}, _heads),
    Row(
        "rotary_yarn",
        layers.RotaryEmbedding,
        {
            "scaling": "yarn",
            "factor": 4.0,
            "original_length": 64,
            "fast": 8.0,
            "slow": 2.0,
            "interleaved": True,
        },
        _heads,
    ),
    Row("alibi", layers.AlibiBias, {}, _scores, unknown={"scores": (0, 2, 3)}),
    Row(
        "relative_position",
        layers.RelativePositionBias,
        {
            "buckets": 4,
            "max_distance": 3,
            "bidirectional": False,
            "embeddings_initializer": "he_normal",
        },
        _scores,
        unknown={"scores": (0, 2, 3)},
        trains=True,
    ),
    Row(
        "multi_head",
        layers.MultiHeadAttention,
        {"num_heads": 3, "key_dim": 2},
        _unequal_memory,
        trains=True,
        **_HEADS,
    ),
    Row(
        "multi_head_grouped",
        layers.MultiHeadAttention,
        {
            "num_heads": 6,
            "key_dim": 4,
            "value_dim": 5,
            "num_key_value_heads": 2,
            "dropout": 0.3,
            "seed": 1,
            "use_bias": False,
            "use_gate": True,
            "sliding_window": 4,
            "position": "rotary",
        },
        _unequal_memory,
        trains=True,
        **_HEADS,
    ),
    Row(
        "multi_head_relative",
        layers.MultiHeadAttention,
        {
            "num_heads": 3,
            "key_dim": 2,
            "position": "relative",
            "normalizer": "softmax1",
            "output_shape": (V,),
        },
        _unequal_memory,
        trains=True,
        **_HEADS,
    ),
    Row(
        "multi_head_alibi",
        layers.MultiHeadAttention,
        {
            "num_heads": 3,
            "key_dim": 2,
            "num_key_value_heads": 1,
            "position": "alibi",
            "use_bias": False,
        },
        _unequal_memory,
        trains=True,
        **_HEADS,
    ),
    # What is penalized moves with samples of weight 0, too.
    Row(
        "multi_head_regularized",
        layers.MultiHeadAttention,
        {
            "num_heads": 3,
            "key_dim": 2,
            "attention_axes": (1,),
            "flash_attention": False,
            "kernel_initializer": "he_normal",
            "bias_initializer": "zeros",
            "kernel_regularizer": "l2",
            "bias_regularizer": "l1",
            "activity_regularizer": "l2",
            "kernel_constraint": "max_norm",
            "bias_constraint": "max_norm",
        },
        _unequal_memory,
        **_HEADS,
    ),
    Row(
        "position_embedding",
        layers.PositionEmbedding,
        {"max_length": 11, "embeddings_initializer": "he_normal"},
        _each,
        trains=True,
    ),
    Row(
        "encoder_block",
        layers.TransformerEncoderBlock,
        {"num_heads": 3, "intermediate_dim": U, "dropout": 0.3, "epsilon": 1e-3},
        _block,
        trains=True,
        hidden=_hide_sample,
    ),
    Row(
        "encoder_block_pre",
        layers.TransformerEncoderBlock,
        {
            "num_heads": 6,
            "intermediate_dim": U,
            "activation": "silu",
            "gated": True,
            "norm_first": True,
            "normalization": "rms",
            "attention": {"position": "rotary", "num_key_value_heads": 2},
        },
        _block,
        trains=True,
        hidden=_hide_sample,
    ),
    Row(
        "adaptive_halting",
        layers.AdaptiveHalting,
        {"threshold": 0.9, "ponder_weight": 0.1, "initial_bias": -1.0},
        _each,
        trains=True,
    ),
    Row(
        "depth_recurrence",
        layers.DepthRecurrence,
        {
            "block": _encoder_block,
            "steps": 2,
            "position": "learned",
            "max_length": T,
        },
        _block,
        trains=True,
        hidden=_hide_sample,
    ),
    Row(
        "depth_recurrence_halting",
        layers.DepthRecurrence,
        {"block": _encoder_block, "steps": 3, "halting": _halting},
        _block,
        trains=True,
        masked=_change_members,
        hidden=_hide_sample,
    ),
    Row(
        "depth_recurrence_adaptive",  # its ponder cost is a loss that has no weights
        layers.DepthRecurrence,
        {"block": _encoder_block, "steps": 2, "halting": "adaptive"},
        _block,
        hidden=_hide_sample,
    ),
    Row(
        "decoder_block",
        layers.TransformerDecoderBlock,
        {
            "num_heads": 3,
            "intermediate_dim": U,
            "dropout": 0.3,
            "activation": "silu",
            "gated": True,
            "epsilon": 1e-3,
            "attention": {"position": "relative", "dropout": 0.1},
        },
        _decoder_block,
        trains=True,
        masked=_change_memory,
        hidden=_hide_memory,
    ),
    Row(
        "decoder_block_pre",
        layers.TransformerDecoderBlock,
        {
            "num_heads": 3,
            "intermediate_dim": U,
            "norm_first": True,
            "normalization": "rms",
        },
        _decoder_block,
        trains=True,
        masked=_change_memory,
        hidden=_hide_memory,
    ),
    Row(
        "decoder_block_of_other_attentions",
        layers.TransformerDecoderBlock,
        {
            "intermediate_dim": U,
            "attention": _dot_attention,
            "cross_attention": partial(layers.Hopfield, 3),
        },
        _decoder_block,
        trains=True,
        masked=_change_memory,
        hidden=_hide_memory,
    ),
    Row(
        "multi_head_sinks",
        layers.MultiHeadAttention,
        {
            "num_heads": 4,
            "key_dim": 2,
            "num_key_value_heads": 2,
            "position": "rotary",
            "query_key_normalization": "rms",
            "attention_sinks": True,
        },
        _unequal_memory,
        trains=True,
        **_HEADS,
    ),
    Row(
        "multi_head_soft_cap",
        layers.MultiHeadAttention,
        {
            "num_heads": 3,
            "key_dim": 2,
            "query_key_normalization": "layer",
            "soft_cap": 0.7,
        },
        _unequal_memory,
        trains=True,
        **_HEADS,
    ),
    Row(
        "transformer_classifier",
        models.TransformerClassifier,
        {
            "vocabulary_size": WORDS,
            "num_classes": V,
            "num_layers": 1,
            "dim": 6,
            "num_heads": 3,
            "intermediate_dim": U,
            "dropout": 0.3,
            "position": "learned",
            "max_length": 9,
        },
        _texts,
        unknown={"tokens": (0, 1)},
        trains=True,
        masked=_pad_sentences,
        hidden=_no_sentence,
    ),
    Row(
        "transformer_classifier_hopfield",
        models.TransformerClassifier,
        {
            "vocabulary_size": WORDS,
            "num_classes": V,
            "num_layers": 1,
            "dim": 6,
            "intermediate_dim": U,
            "attention": _hopfield,
        },
        _texts,
        unknown={"tokens": (0, 1)},
        trains=True,
        masked=_pad_sentences,
        hidden=_no_sentence,
    ),
    Row(
        "transformer_classifier_pre",
        models.TransformerClassifier,
        {
            "vocabulary_size": WORDS,
            "num_classes": V,
            "num_layers": 2,
            "dim": 6,
            "num_heads": 3,
            "intermediate_dim": U,
            "position": "relative",
            "block": {
                "norm_first": True,
                "normalization": "rms",
                "activation": "gelu",
                "attention": {"dropout": 0.1},
            },
        },
        _texts,
        unknown={"tokens": (0, 1)},
        trains=True,
        masked=_pad_sentences,
        hidden=_no_sentence,
    ),
    Row(
        "universal_transformer",
        models.UniversalTransformer,
        {
            "vocabulary_size": WORDS,
            "dim": 6,
            "num_heads": 3,
            "intermediate_dim": U,
            "steps": 2,
            "memory_size": M,
            "time_noise": 0.3,
            "dropout": 0.3,
            "position": "learned",
            "encoding": "position",
            "block": {"norm_first": True},
        },
        _questions,
        unknown=_ANY_LENGTH,
        trains=True,
        masked=_pad_story,
        hidden=_no_story,
    ),
    Row(
        "universal_transformer_halting",
        models.UniversalTransformer,
        {
            "vocabulary_size": WORDS,
            "dim": 6,
            "halting": _halting,
            "block": _encoder_block,
        },
        _questions,
        unknown=_ANY_LENGTH,
        trains=True,
        masked=_pad_story,
        hidden=_no_story,
    ),
    Row(
        "skip_gram",
        models.SkipGram,
        {
            "vocabulary_size": WORDS,
            "dim": D,
            "words": tuple("abcdefghijklmnopq"),
        },
        _around,
        unknown={"center": (0,), "context": (0, 1)},
        trains=True,
    ),
    Row(
        "skip_gram_shared",
        models.SkipGram,
        {"vocabulary_size": WORDS, "dim": D, "shared_negatives": True},
        _rows_around,
        unknown={"center": (0, 1), "context": (0, 1)},
        trains=True,
    ),
    Row(
        "word_rnn",
        models.WordRNN,
        {
            "vocabulary_size": WORDS,
            "embedding_dim": D,
            "units": U,
            "cell": "gru",
            "num_layers": 2,
            "dropout": 0.3,
        },
        _texts,
        unknown={"tokens": (0, 1)},
        trains=True,
        recurrent=True,
    ),
    Row(
        "word_rnn_tied",
        models.WordRNN,
        {
            "vocabulary_size": WORDS,
            "embedding_dim": D,
            "units": D,
            "tie_embeddings": True,
        },
        _texts,
        unknown={"tokens": (0, 1)},
        trains=True,
        recurrent=True,
    ),
    Row(
        "matrix_factorization",
        models.MatrixFactorization,
        {
            "num_users": S,
            "num_items": D,
            "dim": T,
            "mean": 3.5,
        },
        _rated,
        trains=True,
    ),
    Row(  # no row that trains: a regularizer moves weights also without a sample
        "matrix_factorization_products",
        models.MatrixFactorization,
        {
            "num_users": S,
            "num_items": D,
            "dim": T,
            "biases": False,
            "regularization": 0.01,
        },
        _rated,
    ),
    Row(
        "attentive_factorization",
        models.AttentiveFactorization,
        {
            "num_items": WORDS,
            "dim": D,
            "mean": 3.5,
            "dropout": 0.3,
        },
        _history,
        unknown={"history": (0, 1), "history_ratings": (0, 1), "history_mask": (0, 1)},
        trains=True,
        masked=_change_history,
        hidden=_no_history,
    ),
    Row(
        "attentive_factorization_regularized",
        models.AttentiveFactorization,
        {"num_items": WORDS, "dim": D, "regularization": 0.01},
        _history,
        unknown={"history": (0, 1), "history_ratings": (0, 1), "history_mask": (0, 1)},
    ),
    Row(
        "causal_lm",
        models.CausalLM,
        {
            "vocabulary_size": WORDS,
            "num_layers": 2,
            "dim": 6,
            "num_heads": 3,
            "intermediate_dim": U,
            "dropout": 0.3,
            "max_length": 9,
        },
        _texts,
        unknown={"tokens": (0, 1)},
        trains=True,
    ),
    Row(
        "causal_lm_hopfield",
        models.CausalLM,
        {
            "vocabulary_size": WORDS,
            "num_layers": 1,
            "dim": 6,
            "intermediate_dim": U,
            "attention": _hopfield,
        },
        _texts,
        unknown={"tokens": (0, 1)},
        trains=True,
    ),
    Row(
        "causal_lm_rotary",
        models.CausalLM,
        {
            "vocabulary_size": WORDS,
            "num_layers": 1,
            "dim": 8,
            "num_heads": 2,
            "intermediate_dim": U,
            "position": "rotary",
            "tie_embeddings": False,
            "block": {
                "normalization": "rms",
                "gated": True,
                "activation": "silu",
                "attention": {"num_key_value_heads": 1, "sliding_window": 3},
            },
            "pad_token_id": None,
        },
        _texts,
        unknown={"tokens": (0, 1)},
        trains=True,
    ),
    Row(
        "masked_lm",
        models.MaskedLM,
        {
            "vocabulary_size": WORDS,
            "num_layers": 2,
            "dim": 6,
            "num_heads": 3,
            "intermediate_dim": U,
            "dropout": 0.3,
            "max_length": 9,
        },
        _gaps,
        unknown={"tokens": (0, 1), "mask_positions": (0, 1)},
        trains=True,
        masked=_pad_gaps,
        hidden=_no_gaps,
    ),
    Row(
        "masked_lm_hopfield",
        models.MaskedLM,
        {
            "vocabulary_size": WORDS,
            "num_layers": 1,
            "dim": 6,
            "intermediate_dim": U,
            "attention": _hopfield,
        },
        _gaps,
        unknown={"tokens": (0, 1), "mask_positions": (0, 1)},
        trains=True,
        masked=_pad_gaps,
        hidden=_no_gaps,
    ),
    Row(
        "masked_lm_pre",
        models.MaskedLM,
        {
            "vocabulary_size": WORDS,
            "num_layers": 1,
            "dim": 6,
            "num_heads": 2,
            "intermediate_dim": U,
            "position": "alibi",
            "tie_embeddings": False,
            "block": {"norm_first": True},
        },
        _gaps,
        unknown={"tokens": (0, 1), "mask_positions": (0, 1)},
        trains=True,
        masked=_pad_gaps,
        hidden=_no_gaps,
    ),
    Row(
        "masked_lm_head",
        models.MaskedLM,
        {
            "vocabulary_size": WORDS,
            "num_layers": 1,
            "dim": 6,
            "num_heads": 2,
            "intermediate_dim": U,
            "max_length": 9,
            "head": _head,
        },
        _gaps,
        unknown={"tokens": (0, 1), "mask_positions": (0, 1)},
        trains=True,
        masked=_pad_gaps,
        hidden=_no_gaps,
    ),
    Row(
        "transformer",
        models.Transformer,
        {
            "source_vocabulary_size": WORDS,
            "target_vocabulary_size": U,
            "num_layers": 1,
            "dim": 6,
            "num_heads": 3,
            "intermediate_dim": V,
            "dropout": 0.3,
        },
        _sentence_pairs,
        unknown={"source": (0, 1), "target": (0, 1)},
        trains=True,
        masked=_pad_source,
        hidden=_no_source,
    ),
    Row(
        "transformer_of_other_attentions",
        models.Transformer,
        {
            "source_vocabulary_size": WORDS,
            "target_vocabulary_size": U,
            "num_layers": 1,
            "dim": 6,
            "intermediate_dim": V,
            "attention": _dot_attention,
            "cross_attention": _hopfield,
        },
        _sentence_pairs,
        unknown={"source": (0, 1), "target": (0, 1)},
        trains=True,
        masked=_pad_source,
        hidden=_no_source,
    ),
    Row(
        "transformer_pre",
        models.Transformer,
        {
            "source_vocabulary_size": WORDS,
            "target_vocabulary_size": WORDS,
            "num_layers": 2,
            "dim": 6,
            "num_heads": 3,
            "intermediate_dim": V,
            "position": "rotary",
            "tie_embeddings": "all",
            "block": {
                "norm_first": True,
                "normalization": "rms",
                "gated": True,
                "activation": "silu",
                "attention": {"num_key_value_heads": 1, "use_bias": False},
            },
        },
        _sentence_pairs,
        unknown={"source": (0, 1), "target": (0, 1)},
        trains=True,
        masked=_pad_source,
        hidden=_no_source,
    ),
    Row(
        "hopfield",
        layers.Hopfield,
        {
            "num_heads": 3,
            "key_dim": 2,
            "update_steps": 3,
            "beta": [0.3, 1.0, 2.0],
            "trainable_beta": True,
        },
        _unequal_memory,
        trains=True,
        **_HEADS,
    ),
    Row(
        "hopfield_sparse",
        layers.Hopfield,
        {
            "num_heads": 2,
            "key_dim": 4,
            "value_dim": 5,
            "update_steps": 2,
            "normalizer": "entmax15",
            "projections": {
                "use_bias": False,
                "output_shape": [V],
                "query_key_normalization": "rms",
            },
            "dropout": 0.3,
        },
        _unequal_memory,
        trains=True,
        **_HEADS,
    ),
    Row(
        "hopfield_rest",
        layers.Hopfield,
        {
            "update_steps": None,
            "beta": 2.0,
            "projections": False,
            "tolerance": 1e-3,
        },
        _memory,
        **_HEADS,
    ),
    Row(
        "hopfield_pooling",
        layers.HopfieldPooling,
        {
            "num_patterns": 5,
            "num_heads": 3,
            "key_dim": 7,
            "value_dim": 2,
            "update_steps": 2,
            "beta": 0.5,
            "trainable_beta": True,
            "normalizer": "softmax1",
            "projections": {"output_shape": [V]},
            "dropout": 0.3,
        },
        _block,
        trains=True,
        masked=_change_members,
        hidden=_hide_sample,
    ),
    Row(
        "hopfield_layer",
        layers.HopfieldLayer,
        {
            "num_patterns": 11,
            "num_heads": 2,
            "key_dim": 5,
            "separate_values": True,
            "update_steps": 2,
            "beta": [0.5, 2.0],
            "trainable_beta": True,
            "normalizer": "softmax1",
            "projections": {"use_bias": False},
            "dropout": 0.3,
        },
        _block,
        trains=True,
        hidden=_hide_sample,
    ),
    Row(
        "hopfield_classifier",
        models.HopfieldClassifier,
        {
            "input_dim": D,
            "num_classes": 3,
            "dims": (12, 6),
            "num_heads": 3,
            "key_dim": 2,
            "update_steps": 2,
            "beta": [0.5, 1.0, 2.0],
            "dropout": 0.3,
            "instance_dropout": 0.3,
            "pooling": {"num_patterns": 2, "trainable_beta": True},
        },
        _bags,
        unknown={"instances": (0, 1), "instances_mask": (0, 1)},
        trains=True,
        masked=_change_instances,
        hidden=_empty_bag,
    ),
    Row(
        "dnc_network",
        models.DNCNetwork,
        {
            "cell": partial(_dnc_cell, read_heads=2, word_width=3),
            "output_units": 3,
            "input_dim": D,
            "checkpoint_steps": 5,  # all steps: TensorFlow traces each length once
        },
        _asked,
        trains=True,
        recurrent=True,
        masked=_change_behind,
        output_mask=_asked_at,
    ),
    Row(
        "dnc_network_words",
        models.DNCNetwork,
        {
            "cell": partial(_dnc_cell, read_heads=1, word_width=3),
            "output_units": 3,
            "vocabulary_size": WORDS,
            "embedding_dim": 6,
            "trained_slots": 2,
        },
        _asked_words,
        trains=True,
        recurrent=True,
        output_mask=_asked_at,
    ),
    MemoryRow(
        "associative_memory",
        models.AssociativeMemory,
        {
            "kind": "modern",
            "beta": 0.5,
            "normalizer": "softmax1",
            "similarity": "distance",
            "degree": 4,
            "order": "synchronous",
            "chunk_size": 8,
        },
        _each,
    ),
]


# One row a class, for columns that are dear where each row is compiled.
CORE = {row.cls: row.name for row in reversed(ROWS)}.values()


def by_name(name: str) -> Row:
    return next(row for row in ROWS if row.name == name)
