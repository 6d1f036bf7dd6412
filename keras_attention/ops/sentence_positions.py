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

        l_kj = pⱼ + rⱼ κₖ   ⇒   m = C₁ A + κ ∘ C₂ A,   C₁ = Σⱼ pⱼ xⱼ,   C₂ = Σⱼ rⱼ xⱼ

    The encoding has rank 2. C₁ and C₂ are weighted word counts, (..., V), so the sum
    and its gradient are matrix products. This is faster for small vocabularies, above
    all in the backward pass: the gradient of an embedding lookup is a scatter.

    Args:
        word: j, numbers (..., L), 0 for padding.
        words: J, broadcast against `word`.
        tokens: integers (..., L).
        table: A, (V, d).
        encoding: as in `sentence_position`.

    Returns:
        (..., d), in the dtype of the table.

    Raises:
        ValueError: if the encoding is unknown.

    Reference:
        Sukhbaatar et al., "End-to-end memory networks" (2015), section 4.1.
    """
    size, width = table.shape
    constant, ramp, k = _parts(word, words, width, encoding)
    is_valid = ops.cast(word > 0, "float32")
    c_1 = kernels.word_counts(tokens, is_valid * constant, size)  # (..., V)
    c_2 = kernels.word_counts(tokens, is_valid * ramp, size)
    c_1, c_2, k = (ops.cast(x, table.dtype) for x in (c_1, c_2, k))
    return ops.matmul(c_1, table) + k * ops.matmul(c_2, table)  # (..., d)


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
    constant = ops.ones_like(word)
    return (
        constant,
        (word - (words + 1) / 2) / words,
        4 * (k / width - (width + 1) / (2 * width)),
    )


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
    # The facts occupy the n positions with the lowest numbers. The rank of a position
    # is the number of positions with a lower number.
    rank = ops.sum(
        ops.cast(ops.expand_dims(priorities, 2) > priorities[:, None, :], "float32"),
        axis=2,
    )
    taken = ops.cast(rank < facts, "float32")  # (B, P)
    # The a-th fact is at the first position up to which a positions are occupied.
    before = ops.cumsum(taken, axis=1)[:, None, :] < ops.expand_dims(
        ops.cast(age, "float32"), -1
    )
    moved = 1 + ops.sum(ops.cast(before, "int32"), axis=2)  # (B, M)
    return ops.where(age > 0, moved, 0)
