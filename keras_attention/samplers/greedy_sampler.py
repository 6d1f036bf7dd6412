"""Greedy decoding."""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_attention.layers.base.serialization import export
from keras_attention.samplers.sampler import Request, Sampler, one_by_one

Tensor = Any


@export
class GreedySampler(Sampler):
    """Selects the most probable next token at each step; the first one in a tie.

    For call arguments and return values, see `Sampler`.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attention.samplers import GreedySampler
    >>> table = ops.one_hot(np.array([1, 2, 3, 0]), 4)  # after 0 comes 1, and so on
    >>> def following(prompt, cache, index):
    ...     return ops.take(table, prompt[:, index - 1], axis=0), None, cache
    >>> prompt = np.array([[1, 0, 0, 0, 0]])
    >>> tokens = GreedySampler()(following, prompt, index=1, stop_token_ids=[0])
    >>> np.asarray(tokens).tolist()
    [[1, 2, 3, 0, 0]]
    """

    def search(self, request: Request) -> Tensor:
        return one_by_one(request, lambda logits, _: ops.argmax(logits, axis=-1))
