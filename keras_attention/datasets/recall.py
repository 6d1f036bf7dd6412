"""Facts of two words each, and the question what was told of one of them.

A story names pairs, a key and its value, a fact a sentence; the question is one of the
keys again, and the answer is the value that it was named with. However long a story is,
one fact of it is asked for, and which one is not told before its end: what reads from
left to right has to keep all of them until then.

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
    """Arrays that a model learns from.

    Attributes:
        inputs: {"story": int32 (N, M, 2), "question": int32 (N, 1)}, as a memory
            network takes them; M is the most facts that a story has, and 0 is
            padding, behind shorter ones.
        answers: int32 (N,), the token of the value that is asked for.
        facts: int32 (N,), how many facts each story tells.
        places: int32 (N,), which fact is asked for, from 0 on.
    """

    inputs: dict[str, np.ndarray]
    answers: np.ndarray
    facts: np.ndarray
    places: np.ndarray


def vocabulary_size(keys: int = KEYS, values: int = VALUES) -> int:
    """How many tokens there are: padding, the values from 1 on, and then the keys."""
    return 1 + values + keys


def generate(
    count: int,
    facts: int | Sequence[int],
    seed: int | Sequence[int] = 0,
    keys: int = KEYS,
    values: int = VALUES,
) -> Stories:
    """Draws stories.

    The keys of a story differ; which they are, their values, and which of them is asked
    for are drawn evenly. Guessing is right once in `values` times.

    Args:
        count: N.
        facts: how many facts a story tells, or numbers of which one is drawn for each
            story; at most `keys`.
        seed: what is drawn from.
        keys: how many words may be keys.
        values: how many words may be values, at least 2.

    Returns:
        `Stories`.

    Raises:
        ValueError: for numbers below 1, one value alone, or more facts than keys.

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
            "`facts` must be a whole number of at least 1, or some of them. "
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
    """A story's sentences as words: "k1 v3" is a fact, "k1" a question.

    Args:
        sentences: tokens (M, 2) of a story, or (M, 1).
        values: how many values there are.
    """

    def word(token: int) -> str:
        return f"v{token}" if token <= values else f"k{token - values}"

    told = [[word(int(token)) for token in one if token] for one in sentences]
    return [" ".join(one) for one in told if one]
