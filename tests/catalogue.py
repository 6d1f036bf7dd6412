"""One row per public layer and model: how to make it and what it must keep to.

`test_contract.py` walks the rows on each backend. A new layer is a new row; a bug
that was found is a new column. Sizes are unequal primes, so that axes that are mixed
up show. Classes with several rows have a function that makes their rows: `_rows_of`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
        arguments = {
            name: value(dtype=more.get("dtype")) if callable(value) else value
            for name, value in self.arguments.items()
        }
        return self.cls(**{**arguments, **more})

    def but(self, **fields: Any) -> Row:
        """The same row with other inputs or flags."""
        return replace(self, **fields)

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


def _rows_of(
    cls: type,
    arguments: dict[str, Any] | None = None,
    kind: type[Row] = Row,
    **fields: Any,
) -> Callable[..., Row]:
    """A function that makes rows of one class: `row(name, **constructor_arguments)`.

    Args:
        cls: the class.
        arguments: default constructor arguments, which a row may replace.
        kind: the class of the rows.
        **fields: inputs and flags of all rows.
    """

    def row(name: str, **constructor_arguments: Any) -> Row:
        merged = {**(arguments or {}), **constructor_arguments}
        return kind(name, cls, merged, **fields)

    return row


def _floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype("float32")


def _integers(rng: np.random.Generator, low: int, high: int, *shape: int) -> np.ndarray:
    return rng.integers(low, high, shape).astype("int32")


def _padding(steps: int, end: int) -> np.ndarray:
    """A mask: the second sample ends before step `end`."""
    mask = np.ones((B, steps), bool)
    mask[1, end:] = False
    return mask


def _memory_mask() -> np.ndarray:
    """A mask of keys that hides some of each sample."""
    mask = _padding(S, 3)
    mask[0, 1] = False
    return mask


def _change(mask: str, *names: str, value: float = 1e3) -> Callable:
    """A `Row.masked`: it writes `value` into inputs where a mask is False."""

    def masked(inputs: Arrays) -> tuple[Arrays, Arrays]:
        is_valid = inputs[mask][:, :, None]
        changed = {k: np.where(is_valid, inputs[k], np.float32(value)) for k in names}
        return inputs, {**inputs, **changed}

    return masked


def _pad(name: str, *widths: int) -> Callable:
    """A `Row.masked`: it adds padding to each axis of an input but the first."""

    def masked(inputs: Arrays) -> tuple[Arrays, Arrays]:
        padded = np.pad(inputs[name], [(0, n) for n in (0, *widths)])
        return inputs, {**inputs, name: padded}

    return masked


def _hide(name: str, sample: int = 0) -> Callable[[Arrays], Arrays]:
    """A `Row.hidden`: it sets a sample of a mask to False, or of an input to 0."""

    def hidden(inputs: Arrays) -> Arrays:
        changed = inputs[name].copy()
        changed[sample] = 0
        return {**inputs, name: changed}

    return hidden


def _patterns(rng: np.random.Generator) -> np.ndarray:
    return _floats(rng, V, D)


def _pair(rng: np.random.Generator) -> Arrays:
    """A query and keys of one width."""
    return {"query": _floats(rng, B, T, D), "key": _floats(rng, B, S, D)}


def _unequal_pair(rng: np.random.Generator) -> Arrays:
    return {"query": _floats(rng, B, T, D), "key": _floats(rng, B, S, V)}


def _memory(rng: np.random.Generator) -> Arrays:
    """Query, value, key and a mask of the value that leaves something to each."""
    return {
        "query": _floats(rng, B, T, D),
        "value": _floats(rng, B, S, V),
        "key": _floats(rng, B, S, D),
        "value_mask": _memory_mask(),
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


def _each(rng: np.random.Generator) -> Arrays:
    return {"inputs": _floats(rng, B, T, D)}


def _steps(rng: np.random.Generator, width: int = D) -> Arrays:
    """A sequence of which the second's end is padding."""
    return {"inputs": _floats(rng, B, T, width), "mask": _padding(T, 2)}


def _sequence(rng: np.random.Generator, width: int = D) -> Arrays:
    """A sequence, and a memory of which something is hidden."""
    return {
        "inputs": _floats(rng, B, T, width),
        "memory": _floats(rng, B, S, V),
        "memory_mask": _memory_mask(),
    }


# What goes through a block of three or six heads.
_block = partial(_steps, width=12)
_decoder_block = partial(_sequence, width=12)


def _bags(rng: np.random.Generator) -> Arrays:
    """Bags of five and of three instances."""
    return {"instances": _floats(rng, B, S, D), "instances_mask": _padding(S, 3)}


def _asked(rng: np.random.Generator) -> Arrays:
    """Vectors, and steps to answer at: two of the first sequence, all of the second."""
    mask = np.ones((B, S), bool)
    mask[0, [0, 1, 4]] = False
    return {"inputs": _floats(rng, B, S, D), "answer_mask": mask}


def _asked_words(rng: np.random.Generator) -> Arrays:
    """The same of tokens, of which the last of the second sequence is padding."""
    tokens = _integers(rng, 1, WORDS, B, S)
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
    story = _integers(rng, 1, WORDS, B, M, L)
    story[0, 1, 2:] = story[1, 3:] = 0  # a short sentence; two empty slots
    return story


def _tokens(rng: np.random.Generator) -> Arrays:
    return {"inputs": _sentences(rng)}


def _questions(rng: np.random.Generator) -> Arrays:
    question = _integers(rng, 1, WORDS, B, L)
    return {"story": _sentences(rng), "question": question}


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
        "question": _integers(rng, 1, WORDS, B, L),
        "keys": keys.astype("int32"),
        "values": values.astype("int32"),
    }


def _fill_empty_slots(inputs: Arrays) -> tuple[Arrays, Arrays]:
    """Keys in slots without a value, and a longer question."""
    empty = inputs["values"][:, :, None] == 0
    keys = np.where(empty, np.int32(1), inputs["keys"])
    question = np.pad(inputs["question"], ((0, 0), (0, 1)))
    return inputs, {**inputs, "question": question, "keys": keys}


def _records(rng: np.random.Generator) -> Arrays:
    """A question and a memory of M records, each a time and L features."""
    times = np.broadcast_to(np.arange(1, M + 1)[None, :, None], (B, M, 1))
    features = rng.integers(1, WORDS, (B, M, L))
    return {
        "question": _integers(rng, 1, WORDS, B, L),
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


def _to_be_written(rng: np.random.Generator) -> Arrays:
    """Words of a target, and a memory of which something is hidden."""
    inputs = _sequence(rng)
    target = _integers(rng, 1, WORDS, B, T)
    return {"target": target, **{k: inputs[k] for k in ("memory", "memory_mask")}}


def _chosen(rng: np.random.Generator) -> Arrays:
    """Logits of words, and what a hard attention looked at for each."""
    weights = np.eye(S, dtype="float32")[rng.integers(0, S, (B, T))]
    return {"logits": _floats(rng, B, T, U), "weights": weights}


def _sentence_pairs(rng: np.random.Generator) -> Arrays:
    source = _integers(rng, 1, WORDS, B, S)
    source[1, 3:] = 0
    return {"source": source, "target": _integers(rng, 1, U, B, T)}


def _texts(rng: np.random.Generator) -> Arrays:
    return {"tokens": _sentence_pairs(rng)["source"]}


def _gaps(rng: np.random.Generator) -> Arrays:
    """Sentences, and places in them; not all of a row are different."""
    return {**_texts(rng), "mask_positions": _integers(rng, 0, S, B, T)}


def _packed(rng: np.random.Generator) -> Arrays:
    """Two texts in the first row; one, and padding, in the second."""
    ids = np.array([[1, 1, 1, 2, 2], [1, 1, 1, 1, 0]], "int32")
    tokens = _integers(rng, 1, WORDS, B, S) * (ids > 0)
    return {"tokens": tokens.astype("int32"), "segment_ids": ids}


def _packed_gaps(rng: np.random.Generator) -> Arrays:
    return {**_packed(rng), "mask_positions": _integers(rng, 0, S - 1, B, T)}


def _around(rng: np.random.Generator) -> Arrays:
    """Words, and for each one that stood near it and some that did not."""
    return {
        "center": _integers(rng, 0, WORDS, B),
        "context": _integers(rng, 0, WORDS, B, S),
    }


def _rows_around(rng: np.random.Generator) -> Arrays:
    """Rows of words, and the words that each row stands among."""
    return {
        "center": _integers(rng, 0, WORDS, B, T),
        "context": _integers(rng, 0, WORDS, B, S),
    }


def _rated(rng: np.random.Generator) -> Arrays:
    """Users and items, by number."""
    return {"user": _integers(rng, 0, S, B), "item": _integers(rng, 0, D, B)}


def _history(rng: np.random.Generator) -> Arrays:
    """Items, and what their users said of others; the second of some alone."""
    return {
        "item": _integers(rng, 0, WORDS, B),
        "history": _integers(rng, 0, WORDS, B, S),
        "history_ratings": rng.uniform(1, 5, (B, S)).astype("float32"),
        "history_mask": _padding(S, 2),
    }


def _change_history(inputs: Arrays) -> tuple[Arrays, Arrays]:
    is_valid = inputs["history_mask"]
    other = {"history": WORDS - 1 - inputs["history"]}
    other["history_ratings"] = inputs["history_ratings"] + 1
    changed = {k: np.where(is_valid, inputs[k], x) for k, x in other.items()}
    return inputs, {**inputs, **changed}


def _memory_network(dtype: Any = None) -> Any:
    return models.MemN2N(WORDS, embedding_dim=D, dtype=dtype)


def _dot_attention(dtype: Any = None) -> Any:
    return layers.Attention("scaled_dot", dtype=dtype)


def _entmax(dtype: Any = None) -> Any:
    return layers.Entmax(3, dtype=dtype)


def _hopfield(dtype: Any = None) -> Any:
    return layers.Hopfield(2, update_steps=2, dtype=dtype)


def _fast_weight_attention(dtype: Any) -> keras.layers.Layer:
    return layers.FastWeightAttention(2, 3, dtype=dtype)


def _small_model(cls: Any, *sizes: int, dtype: Any = None, **more: Any) -> Any:
    return cls(WORDS, *sizes, 1, 6, 2, U, max_length=9, dtype=dtype, **more)


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


def _bidirectional(dtype: Any = None) -> Any:
    loop = keras.layers.GRU(U, return_sequences=True, dtype=dtype)
    return keras.layers.Bidirectional(loop, dtype=dtype)


def _convolution(dtype: Any = None) -> Any:
    return keras.layers.Conv1D(U, 2, padding="same", dtype=dtype)


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
    target = _integers(rng, 1, U, B, T)
    target[1, 2:] = 0
    return {"image": _floats(rng, B, 5, 7, 3), "target": target}


def _regions(rng: np.random.Generator) -> Arrays:
    """Features of unequal number, and captions."""
    features = _floats(rng, B, S, D)
    features[1, 3:] = 0
    return {"features": features, "target": _pictures(rng)["target"]}


def _dnc_cell(dtype: Any = None, **more: Any) -> Any:
    cell = keras.layers.GRUCell(V, dtype=dtype)
    return layers.DNCCell(cell, M, dtype=dtype, **more)


def _ntm_cell(dtype: Any = None, **more: Any) -> Any:
    cell = keras.layers.LSTMCell(V, dtype=dtype)
    return layers.NTMCell(cell, M, dtype=dtype, **more)


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

# Inputs and flags that many rows have in common.
_SCORE = {"inputs": _unequal_pair, "trains": True}
_ATTENTION = {
    "attention": True,
    "masked": _change("value_mask", "value", "key", value=1e4),
    "hidden": _hide("value_mask"),
}
_TRAINED_ATTENTION = {**_ATTENTION, "inputs": _unequal_memory, "trains": True}
_HEADS = {**_TRAINED_ATTENTION, "heads": True}
_HOP = {**_ATTENTION, "inputs": _hop, "residual": True}
_BLOCK = {"inputs": _block, "trains": True, "hidden": _hide("mask")}
_MEMBERS = {**_BLOCK, "masked": _change("mask", "inputs")}
_STEPS = {**_MEMBERS, "inputs": _steps, "recurrent": True}
_MASKED_MEMORY = {
    "trains": True,
    "masked": _change("memory_mask", "memory", value=1e4),
    "hidden": _hide("memory_mask"),
}
_TOKENS = {"inputs": _tokens, "unknown": {"inputs": (0, 1, 2)}}
_ANY_LENGTH = {"story": (0, 1, 2), "question": (0, 1)}
_STORY = {
    "inputs": _questions,
    "unknown": _ANY_LENGTH,
    "trains": True,
    "masked": _pad("story", 2, 1),
    "hidden": _hide("story"),
}
_TEXTS = {"inputs": _texts, "unknown": {"tokens": (0, 1)}, "trains": True}
_TRANSLATION = {
    "inputs": _sentence_pairs,
    "unknown": {"source": (0, 1), "target": (0, 1)},
    "trains": True,
    "masked": _pad("source", 2),
    "hidden": _hide("source"),
}

# Scores, attention and pooling.
_additive_score = _rows_of(layers.AdditiveScore, {"units": U}, **_SCORE)
_concat_score = _rows_of(layers.ConcatScore, {"units": U}, **_SCORE)
_trained_attention = _rows_of(layers.Attention, **_TRAINED_ATTENTION)
_attention_pooling = _rows_of(layers.AttentionPooling, **_MEMBERS)

ROWS = [
    Row("dot_score", layers.DotScore, {"scaled": True}, _pair),
    Row("cosine_score", layers.CosineScore, {"scale": 3.0}, _pair),
    Row("rbf_score", layers.RBFScore, {"gamma": 0.3}, _pair),
    Row(
        "general_score",
        layers.GeneralScore,
        {"kernel_initializer": "he_normal"},
        **_SCORE,
    ),
    _additive_score("additive_score", use_bias=False, kernel_initializer="he_normal"),
    _concat_score("concat_score", kernel_initializer="he_normal"),
    Row("attention", layers.Attention, {}, _memory, **_ATTENTION),
    _trained_attention(
        "attention_additive",
        score=partial(layers.AdditiveScore, U),
        normalizer="entmax15",
        dropout=0.3,
        seed=1,
    ),
    _trained_attention("attention_general", score="general"),
    _attention_pooling(
        "attention_pooling",
        units=U,
        dropout=0.3,
        kernel_initializer="he_normal",
        seed=1,
    ),
    _attention_pooling(
        "attention_pooling_heads",
        score=partial(layers.AdditiveScore, U),
        num_queries=5,
        normalizer="softmax1",
        num_heads=3,
    ),
]

# Memory networks.
_WORD_SIZES = {"vocabulary_size": WORDS, "embedding_dim": D}
_sentence_encoder = _rows_of(
    layers.SentenceEncoder,
    _WORD_SIZES,
    **_TOKENS,
    trains=True,
    hidden=_hide("inputs"),
    output_mask=_filled,
)
_memory_hop = _rows_of(layers.MemoryHop, **_HOP)
_memn2n = _rows_of(models.MemN2N, _WORD_SIZES, **_STORY)
_key_value_hop = _rows_of(layers.KeyValueHop, trains=True, **_HOP)
_key_value_memnn = _rows_of(
    models.KeyValueMemNN,
    {"vocabulary_size": WORDS, "relations": RELATIONS},
    inputs=_triples,
    unknown={"question": (0, 1), "keys": (0,), "values": (0,)},
    trains=True,
    masked=_fill_empty_slots,
    hidden=_hide("values"),
)
_sentence_features = _rows_of(layers.SentenceFeatures, **_TOKENS)
_fact_finder = _rows_of(
    layers.FactFinder,
    {"features": WORDS, "embedding_dim": D},
    OutputRow,
    inputs=_supported,
    trains=True,
    output="facts",
)
_word_responder = _rows_of(layers.WordResponder, inputs=_found, trains=True)

ROWS += [
    _sentence_encoder(
        "sentence_encoder",
        sentence_length=4,
        embeddings_initializer="he_normal",
    ),
    _sentence_encoder("sentence_encoder_bag", encoding="bag"),
    _sentence_encoder(
        "sentence_encoder_learned",
        encoding="learned",
        sentence_length=2,  # the last word shares a mask
    ),
    Row(
        "memory_age",
        layers.MemoryAge,
        {"memory_size": M, "noise": 0.3, "seed": 1},
        **_TOKENS,
    ),
    _memory_hop("memory_hop"),
    _memory_hop(
        "memory_hop_linear",
        transform=True,
        activation="tanh",
        normalizer="softmax1",
        linear_start=True,
        kernel_initializer="he_normal",
    ).but(trains=True),
    _memory_hop("memory_hop_null", slots=7),
    _memn2n("memn2n"),
    WrappedRow(
        "recorded_model", models.RecordedModel, {"model": _memory_network}, **_STORY
    ),
    _memn2n(
        "memn2n_layer_wise",
        hops=2,
        memory_size=M,
        tying="layer_wise",
        encoding="bag",
        normalizer="softmax1",
        time_noise=0.3,
        linear_start=True,
        activation="tanh",
    ),
    _memn2n(
        "memn2n_word",
        hops=2,
        memory_size=M,
        encoding="centered_position",
        time="word",
        null_memories=False,
    ),
    _key_value_hop("key_value_hop"),
    _key_value_hop(
        "key_value_hop_features",
        features=3,
        normalizer="softmax1",
        kernel_initializer="he_normal",
    ),
    _key_value_memnn("key_value_memnn", memory_size=M),
    _key_value_memnn(
        "key_value_memnn_two_hops",
        embedding_dim=D,
        hops=2,
        memory_size=M,
        encoding="bag",
        normalizer="softmax1",
        kernel_initializer="he_normal",
    ),
    _sentence_features(
        "sentence_features", vocabulary_size=WORDS, ngrams=3, buckets=101
    ),
    _sentence_features(
        "sentence_features_new_words",
        vocabulary_size=KNOWN,
        ngrams=2,
        new_words=WORDS - KNOWN,
    ),
    Row(
        "word_contexts",
        layers.WordContexts,
        {"vocabulary_size": KNOWN, "new_words": WORDS - KNOWN},
        **_TOKENS,
    ),
    Row("memory_writer", layers.MemoryWriter, {"nothing": WORDS}, **_TOKENS),
    _fact_finder("fact_finder"),
    _fact_finder(
        "fact_finder_nonlinear",
        supports=2,
        time=False,
        nonlinear=True,
        hop_versions=True,
    ),
    _fact_finder(
        "fact_finder_new_words",
        features=KNOWN,
        new_words=WORDS - KNOWN,
        exact_match=True,
    ).but(inputs=_supported_new),
    _word_responder(
        "word_responder",
        features=WORDS,
        vocabulary_size=U,
        embedding_dim=D,
        supports=2,
        nonlinear=True,
        hop_versions=True,
    ),
    _word_responder(
        "word_responder_new_words",
        features=KNOWN,
        vocabulary_size=V,
        embedding_dim=D,
        new_words=WORDS - KNOWN,
        exact_match=True,
    ).but(inputs=_found_new),
    Row(
        "segmenter",
        layers.Segmenter,
        _WORD_SIZES,
        _candidates,
        unknown={"inputs": (0, 1)},
        trains=True,
    ),
    # tests/models/memory_networks/test_memnn.py has what two outputs train together.
    OutputRow(
        "memnn", models.MemNN, _WORD_SIZES, _told, unknown=_ANY_LENGTH, output="facts"
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
        masked=_pad("story", 2, 1),
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
        masked=_pad("story", 2, 1),
        output="answer",
    ),
]

# Recurrent attention, external memory, sequences to sequences, captions.
_bahdanau_attention = _rows_of(
    layers.BahdanauAttention, {"units": U}, **_TRAINED_ATTENTION
)
_luong_attention = _rows_of(layers.LuongAttention, **_TRAINED_ATTENTION)
_monotonic_attention = _rows_of(layers.MonotonicAttention, **_TRAINED_ATTENTION)
_hard_attention = _rows_of(layers.HardAttention, chosen_by=42, **_TRAINED_ATTENTION)
_DECODER_SIZES = {"target_vocabulary_size": U, "embedding_dim": D, "units": V}
_seq2seq = _rows_of(
    models.Seq2Seq,
    {"source_vocabulary_size": WORDS, **_DECODER_SIZES},
    recurrent=True,
    **_TRANSLATION,
)
_image_captioner = _rows_of(
    models.ImageCaptioner,
    {"image_shape": (5, 7, 3), **_DECODER_SIZES},
    inputs=_pictures,
    unknown={"image": (0,), "target": (0, 1)},
    trains=True,
    recurrent=True,
)
_feature_captioner = _rows_of(
    models.ImageCaptioner,
    {"image_shape": (None, D), **_DECODER_SIZES},
    inputs=_regions,
    unknown={"features": (0, 1), "target": (0, 1)},
    trains=True,
    recurrent=True,
    masked=_pad("features", 2, 0),
    hidden=_hide("features"),
)

ROWS += [
    _bahdanau_attention(
        "bahdanau_attention", use_bias=False, normalize=True, normalizer="sparsemax"
    ),
    _bahdanau_attention(
        "bahdanau_attention_coverage",
        coverage=True,
        dropout=0.3,
        exact=True,
        kernel_initializer="he_normal",
        seed=1,
    ),
    Row(
        "location_score",
        layers.LocationScore,
        {"max_length": 7, "kernel_initializer": "he_normal"},
        **_SCORE,
    ),
    _luong_attention("luong_attention", scale=True, dropout=0.3, seed=1),
    _luong_attention(
        "luong_attention_local_m",
        score="location",
        locality="local-m",
        window=2,
        max_length=7,
        kernel_initializer="he_normal",
    ),
    _luong_attention(
        "luong_attention_local_p",
        score="concat",
        locality="local-p",
        window=3,
        units=U,
        normalizer="entmax15",
    ),
    # Biased, so that each walk stops somewhere.
    _monotonic_attention("monotonic_attention", units=U, score_bias=3.0),
    _monotonic_attention(
        "monotonic_attention_recursive",
        score="general",
        mode="recursive",
        inference_mode=None,
        sigmoid_noise=0.3,
        seed=1,
    ),
    _additive_score("additive_score_normalized", normalize=True, exact=True),
    _concat_score("concat_score_exact", exact=True),
    Row(
        "attention_rnn",
        layers.AttentionRNN,
        {
            "cell": _gru_cell,
            "attention": partial(layers.BahdanauAttention, U),
            "return_sequences": True,
        },
        _sequence,
        **_MASKED_MEMORY,
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
        output=0,
        **_MASKED_MEMORY,
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
        **_STEPS,
    ),
    OutputRow(
        "dnc_state",
        layers.DNC,
        {"cell": partial(_ntm_cell, word_width=3), "return_state": True},
        output=0,
        **_STEPS,
    ),
    _seq2seq("seq2seq"),
    _seq2seq(
        "seq2seq_luong",
        cell="lstm",
        attention="luong",
        bidirectional=False,
        dropout=0.3,
    ),
    _hard_attention("hard_attention", units=U, seed=1, expected_rate=0.5),
    # What its weights' loss trains is in tests/layers/attention/test_hard.py.
    _hard_attention(
        "hard_attention_reinforce", score="general", estimator="reinforce", seed=1
    ).but(trains=False),
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
        **_MASKED_MEMORY,
    ),
    _seq2seq("seq2seq_scheduled", sampling_probability=0.25),
    _seq2seq(
        "seq2seq_copy",
        source_vocabulary_size=U,  # that of the target; further ids are copied
        attention=partial(layers.BahdanauAttention, U, coverage=True),
        copy=WORDS - U,
    ),
    _image_captioner("image_captioner", filters=(3, 5)),
    _image_captioner(
        "image_captioner_after",
        cell="gru",
        attention=partial(layers.BahdanauAttention, U),
        order="after",
        dropout=0.3,
        encoder=partial(keras.layers.Conv2D, 5, 3, strides=2),
    ),
    # Its penalty counts samples of weight 0, too: test_image_captioner.py.
    _image_captioner(
        "image_captioner_doubly_stochastic",
        filters=(3,),
        doubly_stochastic=0.5,
    ).but(trains=False),
    _feature_captioner("image_captioner_features", encoder=None),
    # What its loss trains is in tests/models/recurrent/test_caption_features.py.
    _feature_captioner(
        "image_captioner_hard",
        cell="gru",
        attention=partial(layers.HardAttention, None, U, "reinforce", seed=1),
        encoder=None,
    ).but(trains=False, chosen_by=42),
]

# Positions, heads and transformer blocks.
_rotary = _rows_of(layers.RotaryEmbedding, inputs=_heads)
_multi_head = _rows_of(
    layers.MultiHeadAttention, {"num_heads": 3, "key_dim": 2}, **_HEADS
)
_transformer_encoder = _rows_of(
    layers.TransformerEncoderBlock, {"num_heads": 3, "intermediate_dim": U}, **_BLOCK
)
_keep_mask = _rows_of(
    layers.KeepMask, inputs=_steps, trains=True, output_mask=lambda row: row["mask"]
)
_depth_recurrence = _rows_of(
    layers.DepthRecurrence, {"block": _encoder_block}, **_BLOCK
)
_induced_set_attention = _rows_of(
    layers.InducedSetAttention, {"num_points": 2, "intermediate_dim": U}, **_BLOCK
)
_transformer_decoder = _rows_of(
    layers.TransformerDecoderBlock, inputs=_decoder_block, **_MASKED_MEMORY
)
_transformer_classifier = _rows_of(
    models.TransformerClassifier,
    {"vocabulary_size": WORDS, "num_classes": V, "num_layers": 1, "dim": 6},
    masked=_pad("tokens", 2),
    hidden=_hide("tokens"),
    **_TEXTS,
)
_universal_transformer = _rows_of(
    models.UniversalTransformer, {"vocabulary_size": WORDS, "dim": 6}, **_STORY
)

ROWS += [
    Row("sine_position", layers.SinePositionEncoding, {"max_wavelength": 50.0}, _each),
    _rotary("rotary", max_wavelength=50.0),
    _rotary(
        "rotary_yarn",
        scaling="yarn",
        factor=4.0,
        original_length=64,
        fast=8.0,
        slow=2.0,
        interleaved=True,
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
    _multi_head("multi_head"),
    _multi_head(
        "multi_head_grouped",
        num_heads=6,
        key_dim=4,
        value_dim=5,
        num_key_value_heads=2,
        dropout=0.3,
        seed=1,
        use_bias=False,
        use_gate=True,
        sliding_window=4,
        position="rotary",
    ),
    _multi_head(
        "multi_head_relative",
        position="relative",
        normalizer="softmax1",
        output_shape=(V,),
    ),
    _multi_head(
        "multi_head_alibi",
        num_key_value_heads=1,
        position="alibi",
        use_bias=False,
    ),
    _multi_head("multi_head_entmax", normalizer=_entmax),
    Row(
        "entmax",
        layers.Entmax,
        {"num_heads": 3},
        _scores,
        unknown={"scores": (0, 2, 3)},
        trains=True,
    ),
    # What is penalized moves with samples of weight 0, too.
    _multi_head(
        "multi_head_regularized",
        attention_axes=(1,),
        flash_attention=False,
        kernel_initializer="he_normal",
        bias_initializer="zeros",
        kernel_regularizer="l2",
        bias_regularizer="l1",
        activity_regularizer="l2",
        kernel_constraint="max_norm",
        bias_constraint="max_norm",
    ).but(trains=False),
    Row(
        "position_embedding",
        layers.PositionEmbedding,
        {"max_length": 11, "embeddings_initializer": "he_normal"},
        _each,
        trains=True,
    ),
    _transformer_encoder("encoder_block", dropout=0.3, epsilon=1e-3),
    _transformer_encoder(
        "encoder_block_pre",
        num_heads=6,
        activation="silu",
        gated=True,
        norm_first=True,
        normalization="rms",
        attention={"position": "rotary", "num_key_value_heads": 2},
    ),
    _induced_set_attention("induced_set", num_heads=3, dropout=0.3, epsilon=1e-3),
    _induced_set_attention(
        "induced_set_pre",
        activation="silu",
        gated=True,
        norm_first=True,
        normalization="rms",
        attention=_hopfield,
    ),
    _keep_mask("keep_mask", layer=_bidirectional).but(
        masked=_change("mask", "inputs"), hidden=_hide("mask"), recurrent=True
    ),
    _keep_mask("keep_mask_convolution", layer=_convolution),
    Row(
        "adaptive_halting",
        layers.AdaptiveHalting,
        {"threshold": 0.9, "ponder_weight": 0.1, "initial_bias": -1.0},
        _each,
        trains=True,
    ),
    _depth_recurrence("depth_recurrence", steps=2, position="learned", max_length=T),
    _depth_recurrence("depth_recurrence_halting", steps=3, halting=_halting).but(
        masked=_change("mask", "inputs")
    ),
    # Its ponder cost is a loss that has no weights.
    _depth_recurrence("depth_recurrence_adaptive", steps=2, halting="adaptive").but(
        trains=False
    ),
    _transformer_decoder(
        "decoder_block",
        num_heads=3,
        intermediate_dim=U,
        dropout=0.3,
        activation="silu",
        gated=True,
        epsilon=1e-3,
        attention={"position": "relative", "dropout": 0.1},
    ),
    _transformer_decoder(
        "decoder_block_pre",
        num_heads=3,
        intermediate_dim=U,
        norm_first=True,
        normalization="rms",
    ),
    _transformer_decoder(
        "decoder_block_of_other_attentions",
        intermediate_dim=U,
        attention=_dot_attention,
        cross_attention=partial(layers.Hopfield, 3),
    ),
    _multi_head(
        "multi_head_sinks",
        num_heads=4,
        num_key_value_heads=2,
        position="rotary",
        query_key_normalization="rms",
        attention_sinks=True,
    ),
    _multi_head("multi_head_soft_cap", query_key_normalization="layer", soft_cap=0.7),
    _transformer_classifier(
        "transformer_classifier",
        num_heads=3,
        intermediate_dim=U,
        dropout=0.3,
        position="learned",
        max_length=9,
    ),
    _transformer_classifier(
        "transformer_classifier_hopfield",
        intermediate_dim=U,
        attention=_hopfield,
    ),
    _transformer_classifier(
        "transformer_classifier_pre",
        num_layers=2,
        num_heads=3,
        intermediate_dim=U,
        position="relative",
        block={
            "norm_first": True,
            "normalization": "rms",
            "activation": "gelu",
            "attention": {"dropout": 0.1},
        },
    ),
    _universal_transformer(
        "universal_transformer",
        num_heads=3,
        intermediate_dim=U,
        steps=2,
        memory_size=M,
        time_noise=0.3,
        dropout=0.3,
        position="learned",
        encoding="position",
        block={"norm_first": True},
    ),
    _universal_transformer(
        "universal_transformer_halting",
        halting=_halting,
        block=_encoder_block,
    ),
]

# Word vectors, recurrent language models, recommendations.
_word_rnn = _rows_of(models.WordRNN, _WORD_SIZES, recurrent=True, **_TEXTS)
_matrix_factorization = _rows_of(
    models.MatrixFactorization,
    {"num_users": S, "num_items": D, "dim": T},
    inputs=_rated,
)
_attentive_factorization = _rows_of(
    models.AttentiveFactorization,
    {"num_items": WORDS, "dim": D},
    inputs=_history,
    unknown={"history": (0, 1), "history_ratings": (0, 1), "history_mask": (0, 1)},
)

ROWS += [
    Row(
        "skip_gram",
        models.SkipGram,
        {"vocabulary_size": WORDS, "dim": D, "words": tuple("abcdefghijklmnopq")},
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
    _word_rnn("word_rnn", units=U, cell="gru", num_layers=2, dropout=0.3),
    _word_rnn("word_rnn_tied", units=D, tie_embeddings=True),
    _matrix_factorization("matrix_factorization", mean=3.5).but(trains=True),
    # No row that trains: a regularizer moves weights also without a sample.
    _matrix_factorization(
        "matrix_factorization_products",
        biases=False,
        regularization=0.01,
    ),
    _attentive_factorization("attentive_factorization", mean=3.5, dropout=0.3).but(
        trains=True,
        masked=_change_history,
        # The history of sample 0 is so long that dropout leaves some of it.
        hidden=_hide("history_mask", sample=1),
    ),
    _attentive_factorization(
        "attentive_factorization_regularized", regularization=0.01
    ),
]

# Transformers that are language models or translate.
_TRANSFORMER_SIZES = {"vocabulary_size": WORDS, "num_layers": 1, "dim": 6}
_causal_lm = _rows_of(models.CausalLM, _TRANSFORMER_SIZES, **_TEXTS)
_masked_lm = _rows_of(
    models.MaskedLM,
    _TRANSFORMER_SIZES,
    inputs=_gaps,
    unknown={"tokens": (0, 1), "mask_positions": (0, 1)},
    trains=True,
    masked=_pad("tokens", 2),
    hidden=_hide("tokens"),
)
_packed_model = _rows_of(
    models.PackedModel,
    inputs=_packed,
    unknown={"tokens": (0, 1), "segment_ids": (0, 1)},
    trains=True,
)
_transformer = _rows_of(
    models.Transformer,
    {
        "source_vocabulary_size": WORDS,
        "target_vocabulary_size": U,
        "num_layers": 1,
        "dim": 6,
    },
    **_TRANSLATION,
)

ROWS += [
    _causal_lm(
        "causal_lm",
        num_layers=2,
        num_heads=3,
        intermediate_dim=U,
        dropout=0.3,
        max_length=9,
    ),
    _causal_lm(
        "causal_lm_fast_weights",
        intermediate_dim=U,
        position=None,
        attention=_fast_weight_attention,
    ),
    _causal_lm("causal_lm_hopfield", intermediate_dim=U, attention=_hopfield),
    _causal_lm(
        "causal_lm_rotary",
        dim=8,
        num_heads=2,
        intermediate_dim=U,
        position="rotary",
        tie_embeddings=False,
        block={
            "normalization": "rms",
            "gated": True,
            "activation": "silu",
            "attention": {"num_key_value_heads": 1, "sliding_window": 3},
        },
        pad_token_id=None,
    ),
    _masked_lm(
        "masked_lm",
        num_layers=2,
        num_heads=3,
        intermediate_dim=U,
        dropout=0.3,
        max_length=9,
    ),
    _masked_lm("masked_lm_hopfield", intermediate_dim=U, attention=_hopfield),
    _masked_lm(
        "masked_lm_pre",
        num_heads=2,
        intermediate_dim=U,
        position="alibi",
        tie_embeddings=False,
        block={"norm_first": True},
    ),
    _masked_lm(
        "masked_lm_head",
        num_heads=2,
        intermediate_dim=U,
        max_length=9,
        head=_head,
    ),
    _packed_model("packed_causal_lm", model=partial(_small_model, models.CausalLM)),
    _packed_model("packed_masked_lm", model=partial(_small_model, models.MaskedLM)).but(
        inputs=_packed_gaps,
        unknown={"tokens": (0, 1), "segment_ids": (0, 1), "mask_positions": (0, 1)},
    ),
    _packed_model(
        "packed_classifier",
        model=partial(
            _small_model,
            models.TransformerClassifier,
            V,
            position="learned",
            block={"norm_first": True},
        ),
        max_segments=2,
    ),
    _transformer("transformer", num_heads=3, intermediate_dim=V, dropout=0.3),
    _transformer(
        "transformer_of_other_attentions",
        intermediate_dim=V,
        attention=_dot_attention,
        cross_attention=_hopfield,
    ),
    _transformer(
        "transformer_pre",
        target_vocabulary_size=WORDS,
        num_layers=2,
        num_heads=3,
        intermediate_dim=V,
        position="rotary",
        tie_embeddings="all",
        block={
            "norm_first": True,
            "normalization": "rms",
            "gated": True,
            "activation": "silu",
            "attention": {"num_key_value_heads": 1, "use_bias": False},
        },
    ),
]

# Fast weights.
_fast_weights = _rows_of(
    layers.FastWeightAttention, {"num_heads": 3, "key_dim": 2}, **_HEADS
)

ROWS += [
    _fast_weights("fast_weights", value_dim=5),
    _fast_weights(
        "fast_weights_channel", decay="channel", strengths="channel", use_gate=True
    ),
    _fast_weights(
        "fast_weights_sum", decay=None, feature_map="softplus", normalization="sum"
    ),
    _fast_weights("fast_weights_linear", rule="linear", kernel_size=None),
]

# Hopfield layers, a network with external memory, an associative memory.
_hopfield_layer = _rows_of(layers.Hopfield, **_HEADS)

ROWS += [
    _hopfield_layer(
        "hopfield",
        num_heads=3,
        key_dim=2,
        update_steps=3,
        beta=[0.3, 1.0, 2.0],
        trainable_beta=True,
    ),
    _hopfield_layer(
        "hopfield_sparse",
        num_heads=2,
        key_dim=4,
        value_dim=5,
        update_steps=2,
        normalizer="entmax15",
        projections={
            "use_bias": False,
            "output_shape": [V],
            "query_key_normalization": "rms",
        },
        dropout=0.3,
    ),
    _hopfield_layer(
        "hopfield_rest",
        update_steps=None,
        beta=2.0,
        projections=False,
        tolerance=1e-3,
    ).but(inputs=_memory, trains=False),
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
        **_MEMBERS,
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
        **_BLOCK,
    ),
    Row(
        "hopfield_layer_product",
        layers.HopfieldLayer,
        {
            "num_patterns": 25,
            "num_heads": 3,
            "key_dim": 6,
            "separate_values": True,
            "beta": [0.5, 1.0, 2.0],
            "trainable_beta": True,
            "normalizer": "softmax1",
            "projections": {"output_shape": (V,)},
            "dropout": 0.3,
            "keys": "product",
            "top_k": 7,
        },
        chosen_by=3,
        **_BLOCK,
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
        masked=_change("instances_mask", "instances"),
        hidden=_hide("instances_mask", sample=1),  # five instances are left
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
