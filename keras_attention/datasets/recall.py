"""Associative recall: stories of two-word facts and a question about one of them.

Each sentence of a story is a fact: a key and its value. The question is one of the
keys, and the answer is its value. The question comes after the story, so a model that
reads from left to right must remember all facts.

    (k₁ v₁) (k₂ v₂) … (k_M v_M)    kᵢ?  →  vᵢ

```python
from keras_attention.datasets import recall

stories = recall.generate(count=1_000, facts=8, seed=0)
stories.inputs["story"].shape               # (1000, 8, 2)
recall.words(stories.inputs["story"][0])    # ['k7 v3', 'k21 v3', …]
```
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
