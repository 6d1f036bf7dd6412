"""Associative recall: the value of a key, asked once (`generate`) or for all keys.

`generate` makes stories of two-word facts and a question about one of them. Each
sentence of a story is a fact: a key and its value. The question is one of the
keys, and the answer is its value. The question comes after the story, so a model that
reads from left to right must remember all facts.

    (k₁ v₁) (k₂ v₂) … (k_M v_M)    kᵢ?  →  vᵢ

```python
from keras_attention.datasets import recall

stories = recall.generate(count=1_000, facts=8, seed=0)
stories.inputs["story"].shape               # (1000, 8, 2)
recall.words(stories.inputs["story"][0])    # ['k7 v3', 'k21 v3', …]
```

`multi_query` makes sequences of tokens, in which all keys return after all pairs, in
another order and at growing distances. A language model predicts the value of each.

    k₁ v₁ k₂ v₂ … k_K v_K · · k₂ · · · k₁ ·  →  v₂, v₁
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

KEYS, VALUES = 32, 8


class Stories(NamedTuple):
    """Training arrays.

    Attributes:
        inputs: {"story": int32 (N, M, 2), "question": int32 (N, 1)}, the inputs of a
            memory network; M is the largest number of facts, and shorter stories end in
            padding, 0.
        answers: int32 (N,), the token of the requested value.
        facts: int32 (N,), the number of facts per story.
        places: int32 (N,), the zero-based index of the requested fact.
    """

    inputs: dict[str, np.ndarray]
    answers: np.ndarray
    facts: np.ndarray
    places: np.ndarray


def vocabulary_size(keys: int = KEYS, values: int = VALUES) -> int:
    """Returns the number of tokens: padding, then the values from 1, then the keys."""
    return 1 + values + keys


def generate(
    count: int,
    facts: int | Sequence[int],
    seed: int | Sequence[int] = 0,
    keys: int = KEYS,
    values: int = VALUES,
) -> Stories:
    """Generates stories.

    The keys of a story are distinct. Keys, values and the requested key are sampled
    uniformly. Guessing has an accuracy of 1 / `values`.

    Args:
        count: N, the number of stories.
        facts: number of facts per story, or several numbers to sample from for each
            story; at most `keys`.
        seed: seed for `numpy.random.default_rng`.
        keys: number of possible keys.
        values: number of possible values, at least 2.

    Raises:
        ValueError: a number is below 1, `values` is 1, or a story has more facts than
            keys.

    Example:

    >>> from keras_attention.datasets import recall
    >>> stories = recall.generate(count=2, facts=[1, 3], seed=1)
    >>> stories.inputs["story"].shape
    (2, 3, 2)
    """
    choices = np.atleast_1d(np.asarray(facts))
    whole = np.issubdtype(choices.dtype, np.integer) and choices.ndim == 1
    if not whole or not choices.size or choices.min() < 1:
        raise ValueError(
            "`facts` must be a whole number of at least 1, or several of them. "
            f"Received: facts={facts!r}"
        )
    most = int(choices.max())
    if most > keys:
        raise ValueError(
            "`facts` must not exceed `keys`, since the keys of a story differ. "
            f"Received: facts={facts!r}, keys={keys}"
        )
    if count < 1 or values < 2:
        raise ValueError(
            "`count` must be at least 1, and `values` at least 2. "
            f"Received: count={count}, values={values}"
        )
    rng = np.random.default_rng(seed)
    number = rng.choice(choices, count)
    named = rng.random((count, keys)).argsort(-1)[:, :most] + values + 1  # (N, M)
    told = rng.integers(1, values + 1, (count, most))  # (N, M)
    asked = (rng.random(count) * number).astype("int32")
    rows = np.arange(count)
    is_filled = np.arange(most) < number[:, None]  # (N, M)
    story = np.stack([named, told], -1) * is_filled[..., None]  # (N, M, 2)
    inputs = {"story": story, "question": named[rows, asked][:, None]}
    return Stories(
        {name: tokens.astype("int32") for name, tokens in inputs.items()},
        told[rows, asked].astype("int32"),
        number.astype("int32"),
        asked,
    )


class Sequences(NamedTuple):
    """Training arrays of `multi_query`.

    Attributes:
        tokens: int32 (N, T), the inputs of a language model.
        targets: int32 (N, T), the value of the key at each query, 0 elsewhere.
        queries: int32 (N, K), the positions of the queries in ascending order.
    """

    tokens: np.ndarray
    targets: np.ndarray
    queries: np.ndarray


def multi_query(
    count: int,
    length: int,
    pairs: int,
    seed: int | Sequence[int] = 0,
    vocabulary_size: int = 8192,
    power: float = 0.01,
    random_filler: bool = False,
) -> Sequences:
    """Generates multi-query associative recall: all pairs, then each key once more.

    The K keys of a sequence are distinct, and so are its values. After the pairs, a key
    returns at every second position at most. Place g = 1, 2, … is chosen in proportion
    to g^(power − 1), without replacement, so that most queries follow soon. Tokens 1 to
    V/2 − 1 are keys, and V/2 to V − 1 are values. Token 0 fills the other positions.

    Train with the loss `SparseCategoricalCrossentropy(from_logits=True,
    ignore_class=0)`, which ignores all positions but the queries.

    Args:
        count: N, the number of sequences.
        length: T, an even number of tokens, at least 4 K.
        pairs: K, the number of pairs and of queries.
        seed: seed for `numpy.random.default_rng`.
        vocabulary_size: V, an even number above 2 K.
        power: exponent of the law of the places; 1 is uniform.
        random_filler: whether random tokens of the vocabulary take the place of 0.

    Raises:
        ValueError: a number of examples or pairs below 1, an odd or too small length
            or vocabulary, or a power that is not above 0.

    Example:

    >>> from keras_attention.datasets import recall
    >>> data = recall.multi_query(2, length=16, pairs=3, seed=1, vocabulary_size=20)
    >>> print(data.tokens[0])
    [ 9 19  5 17  2 10  9  0  0  0  2  0  5  0  0  0]
    >>> print(data.targets[0])
    [ 0  0  0  0  0  0 19  0  0  0 10  0 17  0  0  0]

    Reference:
        Arora, Eyuboglu, Timalsina, Johnson, Poli, Zou, Rudra & Ré, "Zoology: Measuring
        and improving recall in efficient language models" (2023),
        https://arxiv.org/abs/2312.04927. The paper has V = 8,192, power 0.01, and from
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
    tokens, targets = np.zeros((2, count, length), "int32")
    tokens[:, : 2 * pairs] = np.stack([keys, values], -1).reshape(count, -1)
    np.put_along_axis(tokens, queries, keys, 1)
    np.put_along_axis(targets, queries, values, 1)
    if random_filler:
        filler = rng.integers(0, vocabulary_size, tokens.shape, "int32")
        tokens = np.where(tokens == 0, filler, tokens)
    return Sequences(tokens, targets, np.sort(queries).astype("int32"))


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


def words(sentences: np.ndarray, values: int = VALUES) -> list[str]:
    """Converts sentences to words: "k1 v3" is a fact, "k1" a question.

    Args:
        sentences: tokens (M, 2) of a story, or (M, 1) of questions.
        values: number of possible values.
    """

    def word(token: int) -> str:
        return f"v{token}" if token <= values else f"k{token - values}"

    told = [[word(int(token)) for token in sentence if token] for sentence in sentences]
    return [" ".join(sentence) for sentence in told if sentence]
