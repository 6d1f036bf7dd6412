"""Multi-query associative recall: sequences in which every key returns once.

After all pairs, the keys return in another order and at growing distances. A language
model predicts the value of each.

    k₁ v₁ k₂ v₂ … k_K v_K · · k₂ · · · k₁ ·  →  v₂, v₁

Shapes: N sequences, T tokens, K pairs, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Sequences(NamedTuple):
    """Training arrays of `multi_query`.

    Attributes:
        tokens: int32 (N, T), the inputs of a language model.
        queries: int32 (N, K), the positions of the queries in ascending order.
        answers: int32 (N, K), the values of the keys at these positions.
    """

    tokens: np.ndarray
    queries: np.ndarray
    answers: np.ndarray


def multi_query(
    count: int,
    length: int,
    pairs: int,
    seed: int | Sequence[int] = 0,
    vocabulary_size: int = 8192,
    power: float = 0.01,
) -> Sequences:
    """Generates multi-query associative recall: all pairs, then each key once more.

    The K keys of a sequence are distinct, and so are its values. After the pairs, a key
    returns at every second position at most. Place g = 1, 2, … is chosen in proportion
    to g^(power − 1), without replacement, so that most queries follow soon. Tokens 1 to
    V/2 − 1 are keys, and V/2 to V − 1 are values. Token 0 fills the other positions.

    Args:
        count: N, the number of sequences.
        length: T, an even number of tokens, at least 4 K.
        pairs: K, the number of pairs and of queries.
        seed: seed for `numpy.random.default_rng`.
        vocabulary_size: V, an even number above 2 K.
        power: exponent of the law of the places; 1 is uniform.

    Raises:
        ValueError: a number of examples or pairs below 1, an odd or too small length
            or vocabulary, or a power that is not above 0.

    Reference:
        Arora, Eyuboglu, Timalsina, Johnson, Poli, Zou, Rudra & Ré, "Zoology: Measuring
        and improving recall in efficient language models" (2023),
        https://arxiv.org/abs/2312.04927. Figure 2 has V = 8,192, power 0.01, and from
        64 tokens with 4 pairs to 512 tokens with 64 pairs.
    """
    if count < 1 or pairs < 1 or not power > 0:
        raise ValueError(
            "`count` and `pairs` must be at least 1, and `power` above 0. "
            f"Received: count={count}, pairs={pairs}, power={power}"
        )
    for name, size, least in (
        ("length", length, 4 * pairs),
        ("vocabulary_size", vocabulary_size, 2 * pairs + 2),
    ):
        if size % 2 or size < least:
            raise ValueError(
                f"`{name}` must be even and at least {least} for {pairs} pairs. "
                f"Received: {name}={size}"
            )
    rng, half = np.random.default_rng(seed), vocabulary_size // 2
    keys = 1 + _choose(rng, np.ones(half - 1), count, pairs)  # (N, K)
    values = half + _choose(rng, np.ones(half), count, pairs)  # (N, K)
    law = np.arange(1.0, length // 2 - pairs + 1) ** (power - 1)
    queries = 2 * (pairs + _choose(rng, law, count, pairs))  # (N, K)
    tokens = np.zeros((count, length), "int32")  # (N, T)
    tokens[:, : 2 * pairs] = np.stack([keys, values], -1).reshape(count, -1)
    np.put_along_axis(tokens, queries, keys, 1)
    order = queries.argsort()  # (N, K)
    queries, answers = (np.take_along_axis(x, order, 1) for x in (queries, values))
    return Sequences(tokens, queries.astype("int32"), answers.astype("int32"))


def _choose(
    rng: np.random.Generator, weights: np.ndarray, count: int, size: int
) -> np.ndarray:
    """Chooses `size` indices a row, one by one, in proportion to the weights (W,).

    The order of exponential waiting times is that of such choices without replacement.
    """
    times = rng.exponential(size=(count, len(weights))) / weights  # (N, W)
    first = times.argpartition(size - 1)[:, :size]  # (N, K)
    order = np.take_along_axis(times, first, 1).argsort()
    return np.take_along_axis(first, order, 1)
