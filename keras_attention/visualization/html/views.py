"""The views of attention: each checks what it shows, and writes it as lists.

Shapes: K hops or steps of a retrieval, T queries or steps, S keys or patterns, H heads,
M memory slots, W word width, R read heads, D neurons or numbers a word, N words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_attention.visualization.energy import _finite
from keras_attention.visualization.html.page import View, lines, shares, significant
from keras_attention.visualization.memory import _check_steps, _check_trace, _choose
from keras_attention.visualization.plots import (
    _as_text,
    _check_supporting,
    _check_texts,
    _check_weights,
    _note_left_out,
)

_HOPS = (
    "A hop reads all sentences at once. It puts its attention on those that it uses, "
    "and adds what it read to the question for the next hop."
)
_HEADS = (
    "Each word takes in what it attends to. Point at a word, or go through the words "
    "with the arrow keys."
)
_ALIGNMENT = (
    "Each row is a word that the network wrote. It shows which words of the source the "
    "network attended to."
)
_ENERGY = (
    "The network starts from the query. Each step moves the state towards the stored "
    "patterns that are most like it, and no step makes the energy larger."
)
_MEMORY = (
    "The network reads one input a step. It writes to slots of its memory, and reads "
    "from slots. Move the slider, or press a step."
)
_SOFTMAX = (
    "Attention is a softmax of scores. Drag β: a small β spreads the attention, a "
    "large β puts it all on the largest score. Drag the heads: each compares its own "
    "part of the vectors."
)


def hops_view(
    weights: Any,
    sentences: Sequence[str | Sequence[str]],
    question: str | Sequence[str] | None = None,
    answers: str | Sequence[tuple[str, float]] = (),
    supporting: Iterable[int] | None = None,
    title: str | None = None,
    caption: str | None = None,
) -> View:
    """Shows the attention of each hop of a memory network to the sentences of a story.

    `plot_hops` draws the same as a picture. Empty sentences are left out; a note gives
    their weight, if any.

    Args:
        weights: Array (K, M) of floats in [0, 1]: K hops over M memory slots.
        sentences: At most M sentences, one per slot; each is a string or a sequence of
            words.
        question: A string or a sequence of words.
        answers: The answer, or pairs of a word and its probability, the best first.
        supporting: Zero-based indices of the supporting sentences, which are marked.
        title: Defaults to "The hops of a memory network".
        caption: Sentences below the title. By default, they say what a hop is.

    Returns:
        A `View`, for `to_html`.

    Raises:
        ValueError: Same as `plot_hops`; also if a probability is not in [0, 1].

    Example:
    ```python
    view = hops_view(
        [[0.9, 0.1], [0.2, 0.8]],
        ["Mary took the milk.", "Mary went to the hall."],
        question="Where is the milk?",
        answers=[("hall", 0.97), ("garden", 0.02)],
    )
    ```
    """
    weights = _check_weights(weights, "(K, M), hops by memory slots")
    texts = _check_texts("sentences", sentences, "slot", weights.shape[1])
    marked = _check_supporting(supporting, texts)
    shown = [slot for slot, text in enumerate(texts) if text]
    left_out = np.sum(np.delete(weights, shown, axis=1), axis=1)  # (K,)
    data = {
        "weights": shares(weights[:, shown]),  # (K, M)
        "sentences": [texts[slot] for slot in shown],
        "question": None if question is None else _as_text(question),
        "answers": _answers(answers),
        "supporting": [n for n, slot in enumerate(shown) if slot in marked],
        "notes": _note_left_out(left_out, "hop", "slots without a sentence"),
    }
    title = lines("title", title, "The hops of a memory network")
    return View("hops", title, lines("caption", caption, _HOPS), data)


def _answers(answers: str | Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    pairs = [(answers, 1.0)] if isinstance(answers, str) else list(answers)
    rounded = [(str(word), round(float(share), 4)) for word, share in pairs]
    if any(not 0 <= share <= 1 for _, share in rounded):
        raise ValueError(
            f"`answers` must hold probabilities in [0, 1]. Received: answers={pairs!r}"
        )
    return rounded


def heads_view(
    maps: Any,
    query_tokens: Sequence[str] | Mapping[str, Sequence[str]],
    key_tokens: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    word: int = 0,
    title: str | None = None,
    caption: str | None = None,
) -> View:
    """Shows what each word attends to, for each layer and head.

    The reader points at a word, and chooses a layer, a head, and the direction: what
    the word attends to, or which words attend to it.

    Args:
        maps: Weights in [0, 1]: an array (H, T, S) or (T, S), or a dict from the name
            of each layer to such an array, as `record_attention` gives them for one
            sample.
        query_tokens: T strings, or a dict of them by the name of the layer.
        key_tokens: S strings, or a dict of them. Defaults to the query tokens.
        word: Index of the word that is chosen at first.
        title: Defaults to "What each word attends to".
        caption: Sentences below the title.

    Returns:
        A `View`, for `to_html`.

    Raises:
        ValueError: If there are no maps, a map has another shape or numbers outside [0,
            1], the tokens do not fit a map, or `word` is out of range.

    Example:
    ```python
    with keras_attention.record_attention() as maps:
        model({"tokens": ids})  # (1, T)
    first = {name: weights[0] for name, weights in maps.items()}
    view = heads_view(first, words)
    ```
    """
    groups = _groups_of(maps, query_tokens, key_tokens)
    length = max(len(group["queries"]) for group in groups)
    if not 0 <= word < length:
        raise ValueError(
            f"`word` must be from 0 to {length - 1}. Received: word={word}"
        )
    data = {"groups": groups, "word": int(word), "notes": []}
    title = lines("title", title, "What each word attends to")
    return View("heads", title, lines("caption", caption, _HEADS), data)


def _groups_of(maps: Any, query_tokens: Any, key_tokens: Any) -> list[dict[str, Any]]:
    """Checks the arguments of `heads_view`; returns its groups, as lists."""
    named = maps if isinstance(maps, Mapping) else {"attention": maps}
    if not named:
        raise ValueError("`maps` must hold at least one map. Received: maps={}")
    groups = []
    for name, weights in named.items():
        weights = _check_heads(name, weights)  # (H, T, S)
        tokens = {"query_tokens": query_tokens, "key_tokens": key_tokens}
        if key_tokens is None:
            tokens["key_tokens"] = query_tokens
        texts = {}
        for axis, (argument, words) in enumerate(tokens.items(), 1):
            of_map = words[name] if isinstance(words, Mapping) else words
            texts[argument] = _check_tokens(argument, of_map, name, weights.shape[axis])
        groups.append(
            {
                "name": str(name),
                "queries": texts["query_tokens"],
                "keys": texts["key_tokens"],
                "weights": shares(weights),
            }
        )
    return groups


def _check_heads(name: str, weights: Any) -> np.ndarray:
    array = np.asarray(weights, dtype="float64")
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or 0 in array.shape:
        raise ValueError(
            "`maps` must hold arrays (T, S) or (H, T, S), of one sample. "
            f"Received: maps[{name!r}].shape={np.shape(weights)}"
        )
    flat = array.reshape(-1, array.shape[-1])  # (H·T, S)
    return _check_weights(flat, "(H, T, S)").reshape(array.shape)


def _check_tokens(argument: str, tokens: Any, name: str, size: int) -> list[str]:
    texts = _check_texts(argument, tokens, "row or column", size)
    if len(texts) != size:
        raise ValueError(
            f"`{argument}` must hold a token for each row or column of the map. "
            f"Received: {len(texts)} token(s), {size} of maps[{name!r}]"
        )
    return [text or "␣" for text in texts]


def alignment_view(
    maps: Any,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    query_label: str = "query",
    key_label: str = "key",
    query_text: str | None = None,
    key_text: str | None = None,
    title: str | None = None,
    caption: str | None = None,
) -> View:
    """Shows which words of one text attend to which words of another.

    Rows are query tokens and columns are key tokens, as in `plot_alignment`. With
    several layers or heads, the reader chooses one.

    Args:
        maps: Weights in [0, 1]: an array (T, S) or (H, T, S), or a dict from the name
            of each layer to such an array.
        query_tokens: T strings, for the rows from the top.
        key_tokens: S strings, for the columns from the left.
        query_label: Label of the rows, for example `"English"`.
        key_label: Label of the columns, for example `"Dutch"`.
        query_text: The text of the rows as one sentence, shown above; None for none.
        key_text: The text of the columns as one sentence, shown above; None for none.
        title: Defaults to "The alignment of two texts".
        caption: Sentences below the title.

    Returns:
        A `View`, for `to_html`.

    Raises:
        ValueError: Same as `heads_view`.

    Example:
    ```python
    view = alignment_view([[0.9, 0.1], [0.2, 0.8]], ["a", "house"], ["ein", "Haus"])
    ```
    """
    data = {
        "groups": _groups_of(maps, query_tokens, key_tokens),
        "query_label": str(query_label),
        "key_label": str(key_label),
        "query_text": query_text,
        "key_text": key_text,
        "notes": [],
    }
    title = lines("title", title, "The alignment of two texts")
    return View("alignment", title, lines("caption", caption, _ALIGNMENT), data)


def energy_view(
    states: Any,
    energies: Any,
    patterns: Any = None,
    weights: Any = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    caption: str | None = None,
) -> View:
    """Shows a Hopfield retrieval step by step: state, energy and weights of patterns.

    `plot_energy` draws several retrievals as a picture.

    Args:
        states: Array (K + 1, rows, columns): the query and the state after each of K
            steps, as images. The smallest number of all images is black.
        energies: Array (K + 1), the energy of each state.
        patterns: Array (S, rows, columns), the stored patterns; None to show none.
        weights: Array (K + 1, S) of floats in [0, 1], the weight of each pattern in the
            step after each state. It is given together with `patterns`.
        names: S strings, the names of the patterns. Defaults to "pattern 1" and so on.
        title: Defaults to "A Hopfield network completes a pattern".
        caption: Sentences below the title.

    Returns:
        A `View`, for `to_html`.

    Raises:
        ValueError: If the shapes do not match, a number is not finite, or only one of
            `patterns` and `weights` is given.

    Example:
    ```python
    _, trajectory = memory.retrieve(query[None], return_trajectory=True)
    states = trajectory.states.reshape(-1, rows, columns)
    view = energy_view(states, trajectory.energies[:, 0])
    ```
    """
    states = _finite("states", states)
    if states.ndim != 3 or 0 in states.shape:
        raise ValueError(
            "`states` must be an array (K + 1, rows, columns), of one retrieval. "
            f"Received: states.shape={states.shape}"
        )
    energies = _finite("energies", energies)
    if energies.shape != states.shape[:1]:
        raise ValueError(
            f"`energies` must have a number for each of {len(states)} states. "
            f"Received: energies.shape={energies.shape}"
        )
    if (patterns is None) != (weights is None):
        raise ValueError(
            "`patterns` and `weights` must be given together. "
            f"Received: patterns={patterns is not None}, weights={weights is not None}"
        )
    images = states
    stored, mixed = np.zeros((0, *states.shape[1:])), np.zeros((0, 0))
    if patterns is not None:
        stored = _finite("patterns", patterns)
        mixed = _check_weights(weights, "(K + 1, S), states by patterns")
        expected = (len(mixed[0]), *states.shape[1:])
        if stored.shape != expected or len(mixed) != len(states):
            raise ValueError(
                "`patterns` must be (S, rows, columns) and `weights` (K + 1, S), with "
                f"{len(states)} states of {states.shape[1:]}. Received: "
                f"patterns.shape={stored.shape}, weights.shape={mixed.shape}"
            )
        images = np.concatenate([states, stored])
    if names is None:
        names = [f"pattern {n + 1}" for n in range(len(stored))]
    if isinstance(names, str) or len(names) != len(stored):
        raise ValueError(
            f"`names` must hold a string for each of {len(stored)} patterns. "
            f"Received: names={names!r}"
        )
    data = {
        "rows": states.shape[1],
        "columns": states.shape[2],
        "low": significant(images.min()),
        "high": significant(images.max()),
        "states": significant(states.reshape(len(states), -1)),  # (K + 1, D)
        "energies": significant(energies),
        "patterns": significant(stored.reshape(len(stored), states[0].size)),  # (S, D)
        "weights": shares(mixed),
        "names": [str(name) for name in names],
        "notes": [],
    }
    title = lines("title", title, "A Hopfield network completes a pattern")
    return View("energy", title, lines("caption", caption, _ENERGY), data)


def memory_view(
    trace: Any,
    sample: int = 0,
    steps: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    slots: int = 24,
    length: int | None = None,
    title: str | None = None,
    caption: str | None = None,
) -> View:
    """Shows the memory of a DNC or a Neural Turing Machine at each step.

    `plot_memory` draws all steps as a picture.

    Args:
        trace: The output of `DNC.trace` or `DNCNetwork.trace`: a named tuple of batched
            arrays.
        sample: Index of the sample in the batch.
        steps: At most T strings, what is read at each step.
        outputs: At most T strings, what the network says at each step; "" for nothing.
        slots: Maximum number of slots to show. Slots with the largest weights come
            first.
        length: Number of steps to show, without padding; None for all.
        title: Defaults to "An external memory, step by step".
        caption: Sentences below the title.

    Returns:
        A `View`, for `to_html`.

    Raises:
        ValueError: Same as `plot_memory`.

    Example:
    ```python
    trace = model.trace(inputs)  # model: a `DNCNetwork`
    view = memory_view(trace, steps=words)
    ```
    """
    seen = _check_trace(trace, sample, length)
    count = len(seen.memory)
    if not isinstance(slots, (int, np.integer)) or slots < 1:
        raise ValueError(f"`slots` must be at least 1. Received: slots={slots!r}")
    order, _ = _choose(seen, slots)
    order = np.sort(np.asarray(order, dtype=int))
    names, said = _check_steps(steps, count), _check_steps(outputs, count)
    left_out = seen.memory.shape[1] - len(order)
    note = f"{left_out} slots with smaller weights are left out." if left_out else ""
    usage = [] if seen.usage is None else shares(np.clip(seen.usage[:, order], 0, 1))
    data = {
        "memory": significant(seen.memory[:, order]),  # (T, M, W)
        "write": shares(seen.write_weights[:, :, order].swapaxes(0, 1)),  # (H, T, M)
        "read": shares(seen.read_weights[:, :, order].swapaxes(0, 1)),  # (R, T, M)
        "usage": usage,  # (T, M)
        "slots": order.tolist(),
        "steps": names or [""] * count,
        "outputs": said or [""] * count,
        "notes": [note] if note else [],
    }
    title = lines("title", title, "An external memory, step by step")
    return View("memory", title, lines("caption", caption, _MEMORY), data)


def softmax_view(
    vectors: Any,
    words: Sequence[str],
    beta: float = 1.0,
    title: str | None = None,
    caption: str | None = None,
) -> View:
    """Shows the attention of a vector to others, with β and heads that can be dragged.

    The page computes softmax(β q · k) itself. The reader chooses the query.

    Args:
        vectors: Array (N, D) of finite numbers; each row is a query and a key.
        words: N strings, the names of the rows.
        beta: The first value of β, from 0.01 to 100.
        title: Defaults to "Temperature, β and heads".
        caption: Sentences below the title.

    Returns:
        A `View`, for `to_html`.

    Raises:
        ValueError: If the vectors are not a finite array (N, D), the numbers of words
            and vectors differ, or `beta` is out of range.

    Example:
    ```python
    view = softmax_view([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], ["king", "queen", "tea"])
    ```
    """
    array = _finite("vectors", vectors)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"`vectors` must be an array (N, D). Received: vectors.shape={array.shape}"
        )
    texts = _check_texts("words", words, "row", len(array))
    if len(texts) != len(array):
        raise ValueError(
            "`words` must hold a string for each row of `vectors`. "
            f"Received: {len(texts)} word(s), {len(array)} row(s)"
        )
    if not 0.01 <= beta <= 100:
        raise ValueError(f"`beta` must be from 0.01 to 100. Received: beta={beta}")
    data = {
        "words": texts,
        "vectors": significant(array),
        "beta": float(beta),
        "notes": [],
    }
    title = lines("title", title, "Temperature, β and heads")
    return View("softmax", title, lines("caption", caption, _SOFTMAX), data)
