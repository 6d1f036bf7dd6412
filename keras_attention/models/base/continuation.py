"""Continuation of prompts of unequal length by a language model.

Shapes: B prompts, N sequences per prompt, P prompt positions, T tokens in total.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.models.base.generation import (
    Writer,
    as_tokens,
    padded,
    stop_tokens,
)
from keras_attention.ops.sequence import decoding


class Continuation:
    """Continues prompts with a model's compiled `begin` and `next`.

    Prompts are aligned to end at the same position P, so that every row writes at the
    same index. Positions before a shorter prompt are masked.

    Args:
        model: a model with `begin(inputs, length) -> (cache, static)`, KerasHub's
            `next(prompt, cache, index, static)`, `vocabulary_size` and `positions`.
            `positions` is the maximum number of positions; None for no limit.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.write = Writer(model)

    def __call__(
        self,
        prompts: Any,
        max_length: int,
        sampler: Any,
        stop_token_ids: Any,
        seed: int | None,
        count: int,
    ) -> Any:
        """Generates tokens after each prompt; see `CausalLM.generate`."""
        positive("max_length", max_length)
        positive("num_sequences", count)
        stops = stop_tokens(stop_token_ids, self.model.vocabulary_size)
        tokens, lengths = self._checked(prompts, max_length)
        batch, index = tokens.shape
        width = index + decoding.bucket(max_length)
        prompt = np.zeros((batch * count, width), "int32")
        for row, (one, length) in enumerate(zip(tokens, lengths)):
            rows = slice(row * count, (row + 1) * count)
            prompt[rows, index - length : index] = one[:length]

        def begin(inputs: Any, length: int) -> tuple[Any, Any, int]:
            both = self.model.begin(inputs, length)
            if count > 1:  # process each prompt once for all its sequences
                both = keras.tree.map_structure(
                    lambda x: ops.repeat(x, count, axis=0), both
                )
            return (*both, inputs["tokens"].shape[1])

        inputs = {"tokens": tokens, "length": lengths}
        found = self.write(
            begin, inputs, prompt, index, max_length, sampler, stops, seed, count
        )
        if count == 1:
            return found
        return keras.tree.map_structure(
            lambda x: x.reshape(batch, count, *x.shape[1:]), found
        )

    def _checked(self, prompts: Any, max_length: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the prompts (B, P), padded at the end, and their lengths (B,)."""
        tokens = as_tokens("tokens", _rows(prompts), self.model.vocabulary_size)
        lengths = (tokens != 0).sum(1)
        inside = np.arange(tokens.shape[1]) < lengths[:, None]
        if not lengths.all() or (inside != (tokens != 0)).any():
            raise ValueError(
                "`tokens` must hold at least one token a row, and padding, 0, behind "
                f"them alone. Received: rows of {lengths.tolist()} tokens in "
                f"{tokens.shape[1]} places"
            )
        longest, most = int(lengths.max()), self.model.positions
        if most is not None and longest + max_length > most:
            raise ValueError(
                "The longest prompt and `max_length` together must not exceed the "
                f"positions that the model has learned. Received: a prompt of {longest}"
                f" tokens, max_length={max_length}, {most} positions"
            )
        return padded(tokens[:, :longest], most), lengths.astype("int32")


def _rows(prompts: Any) -> Any:
    """Pads lists of unequal length at the end; returns other prompts unchanged."""
    if not isinstance(prompts, (list, tuple)):
        return prompts
    rows = [np.asarray(row) for row in prompts]
    if not rows or any(row.ndim != 1 for row in rows):
        return prompts
    width = max(len(row) for row in rows)
    return np.stack([np.pad(row, (0, width - len(row))) for row in rows])
