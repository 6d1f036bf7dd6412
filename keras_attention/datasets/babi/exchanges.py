"""Finds all exchanges of words and phrases that do not change a task."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import NamedTuple

from keras_attention.datasets.babi.archive import Example
from keras_attention.datasets.babi.joint_exchanges import Exchange, joint_exchanges
from keras_attention.datasets.babi.phrases import (
    find_phrases,
    join_phrases,
    needed_phrases,
)
from keras_attention.datasets.babi.renaming import interchangeable


class Exchanges(NamedTuple):
    """The exchanges that do not change a task.

    Attributes:
        phrases: Phrases that act as one word; see `find_phrases`.
        groups: Groups of interchangeable words, and of phrases joined to one word; see
            `interchangeable`.
        joint: Exchanges of several words at once; see `joint_exchanges`.
    """

    phrases: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, ...], ...]
    joint: tuple[Exchange, ...]


def find_exchanges(examples: Sequence[Example], seed: int = 0) -> Exchanges:
    """Finds phrases, interchangeable words and joint exchanges of one task.

    Phrases are kept only if an exchange needs them, and if their interchangeable words
    do not occur elsewhere. The groups and joint exchanges are those of the examples
    after `join_phrases` with these phrases.

    Args:
        examples: Questions of one task, in the order of their file.
        seed: Seed for the random exchanges of the test.

    Raises:
        ValueError: `examples` is not a list of examples or is empty, or the examples
            come from several tasks.
    """
    is_list = isinstance(examples, Sequence) and len(examples) > 0
    if not (is_list and all(isinstance(example, Example) for example in examples)):
        raise ValueError(
            "`examples` must be a list of `babi.Example`, as from `babi.load` or "
            f"`babi.parse`. Received: examples={reprlib.repr(examples)}"
        )
    phrases = _closed(examples, find_phrases(examples), seed)
    while True:
        joined = join_phrases(examples, phrases)
        groups = interchangeable(joined, seed)
        joint = joint_exchanges(joined, groups, seed)
        pairs = [pair for exchange in joint for pair in exchange]
        needed = needed_phrases(phrases, [*groups, *pairs])
        if needed == phrases:
            return Exchanges(phrases, groups, joint)
        phrases = needed


def _closed(
    examples: Sequence[Example], phrases: tuple[tuple[str, ...], ...], seed: int
) -> tuple[tuple[str, ...], ...]:
    """Leaves out phrases with an interchangeable word that also occurs elsewhere."""
    if not phrases:
        return ()
    joined = join_phrases(examples, phrases)
    alone = {word for example in joined for fact in example.story for word in fact}
    alone |= {
        word for example in joined for word in (*example.question, example.answer or "")
    }
    exchanged = {word for group in interchangeable(examples, seed) for word in group}
    return tuple(p for p in phrases if not exchanged.intersection(p, alone))
