"""Positions of the words in a sentence and ages of the sentences in a story.

Shapes: B batch, M memory slots, L words, D width, V words of a vocabulary.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention import kernels

Tensor = Any


ENCODINGS = ("position", "centered_position")


def sentence_position(
    word: Tensor, words: Tensor, width: int, encoding: str = "position"
) -> Tensor:
    """Computes MemN2N's position encoding: the weight of word j in dimension k.

        position           l_kj = (1 − j/J) − (k/d) (1 − 2j/J)
        centered_position  l_kj = 1 + 4 (k − (d + 1)/2) (j − (J + 1)/2) / (d J)

    with j = 1 … J and k = 1 … d. A sum over words with these weights preserves the word
    order.

    Args:
        word: j, numbers (..., L).
        words: J, the length of the sentence, broadcast against `word`.
        width: d, the width of an embedding.
        encoding: "position", as in the paper, or "centered_position", as in the
            authors' code: the same ramps, about twice as steep, with mean 1.

    Returns:
        (..., L, d), floats.

    Raises:
        ValueError: if the encoding is unknown.

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1.
    """
    constant, ramp, k = _parts(word, words, width, encoding)
    return ops.expand_dims(constant, -1) + ops.expand_dims(ramp, -1) * k  # (..., L, d)


def position_weighted_sum(
    word: Tensor,
    words: Tensor,
    tokens: Tensor,
    table: Tensor,
    encoding: str = "position",
) -> Tensor:
    """Computes Σⱼ lⱼ ∘ A xⱼ without one embedding vector per word.

        l_kj = pⱼ + rⱼ κₖ   ⇒   m = Σⱼ pⱼ A xⱼ + κ ∘ Σⱼ rⱼ A xⱼ

    The encoding has rank 2. On torch, both sums and their gradient store no vector per
    word. On the other backends, the sums are products of the table and weighted word
    counts, (..., V), which is faster for small vocabularies, above all in the backward
    pass: the gradient of an embedding lookup is a scatter.

    The tokens are integers (..., L), and the table is A, (V, d). The other arguments
    and the errors are those of :func:`sentence_position`; a word of padding has j = 0.

    Returns:
        (..., d), in the dtype of the table.

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1.
    """
    constant, ramp, k = _parts(word, words, table.shape[1], encoding)
    is_valid = ops.cast(word > 0, "float32")
    sums = kernels.word_sums(tokens, is_valid * constant, is_valid * ramp, table)
    return sums[0] + ops.cast(k, table.dtype) * sums[1]  # (..., d)


def _parts(
    word: Tensor, words: Tensor, width: int, encoding: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes pⱼ and rⱼ, (..., L), and κₖ, (d,), of l_kj = pⱼ + rⱼ κₖ."""
    if encoding not in ENCODINGS:
        raise ValueError(
            f"`encoding` must be one of {list(ENCODINGS)}. "
            f"Received: encoding={encoding!r}"
        )
    word, words = ops.cast(word, "float32"), ops.cast(words, "float32")
    k = ops.arange(1, width + 1, dtype="float32")
    if encoding == "position":
        j = word / words
        return 1 - j, 2 * j - 1, k / width
    ramp = (word - (words + 1) / 2) / words
    return ops.ones_like(word), ramp, 4 * (k / width - (width + 1) / (2 * width))


def age(filled: Tensor) -> Tensor:
    """Computes the age of each memory: 1 for the newest, 0 for an empty slot.

    Args:
        filled: booleans (B, M), True for a slot that holds a memory.

    Returns:
        Integers (B, M).
    """
    filled = ops.cast(filled, "int32")
    after = ops.flip(ops.cumsum(ops.flip(filled, axis=1), axis=1), axis=1)
    return after * filled  # (B, M)


def insert_gaps(age: Tensor, draws: Tensor, rate: float) -> Tensor:
    """Computes the ages after random time noise, which inserts empty memories.

    A story of n facts receives u empty memories at random positions, with u sampled
    from 0 … ⌈rate·n⌉. The facts keep their order and none is dropped.

    Args:
        age: integers (B, M): 1 … n for the facts of a story, 0 for empty slots.
        draws: numbers between 0 and 1, (B, 1 + M + ⌈rate·M⌉). The first number
            determines how many empty memories are inserted, the others determine where.
        rate: the maximum number of empty memories, as a fraction of n.

    Returns:
        Integers (B, M), each at least as large as the original age.

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1, "Learning
        time invariance by injecting random noise".
    """
    facts = ops.cast(ops.max(age, axis=1, keepdims=True), "float32")  # n, (B, 1)
    # In float32, rate·n may exceed an exact integer by a rounding error.
    most = ops.ceil(rate * (1 - 1e-6) * facts)
    blanks = ops.floor(draws[:, :1] * (most + 1))  # u, (B, 1)
    priorities = draws[:, 1:]  # (B, P), P places
    places = ops.cumsum(ops.ones_like(priorities), axis=1)  # 1 … P
    priorities = ops.where(places <= facts + blanks, priorities, 2.0)
    # The facts occupy the n positions with the lowest numbers. Sorting takes memory
    # proportional to P, comparisons of all pairs would take P².
    count = ops.cast(facts, "int32")
    ordered = ops.sort(priorities, axis=1)
    last = ops.take_along_axis(ordered, ops.maximum(count - 1, 0), axis=1)
    taken = ops.logical_and(priorities <= last, count > 0)  # (B, P)
    # The a-th fact is at the a-th of these positions.
    numbers = ops.cast(ops.where(taken, places, 2.0**30), "int32")
    numbers = ops.sort(numbers, axis=1)
    moved = ops.take_along_axis(numbers, ops.maximum(age - 1, 0), axis=1)  # (B, M)
    return ops.where(age > 0, moved, 0)
