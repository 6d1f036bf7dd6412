"""Continuation of prompts of unequal length by a language model.

Shapes: B prompts, N sequences per prompt, P prompt positions, T tokens in total.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import kernels
from keras_attention.layers.base.arguments import positive
from keras_attention.models.base.generation import (
    Writer,
    as_tokens,
    padded,
    stop_tokens,
)
from keras_attention.numerics import masks
from keras_attention.ops.sequence import decoding

Tensor = Any


class Continuation:
    """Continues prompts with a model's compiled `begin` and `next`.

    Prompts are aligned to end at the same position P, so that every row writes at the
    same index. Positions before a shorter prompt are masked. With the `pad_token_id`
    None, no token is padding. The `positions` of the model are its maximum number of
    positions; None for no limit.
    """

    def __init__(self, model: Any, pad_token_id: int | None = 0) -> None:
        self.model = model
        self.pad_token_id = pad_token_id
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
        """Generates tokens after each prompt; see `ContinuesPrompts.generate`."""
        positive("max_length", max_length)
        positive("num_sequences", count)
        stops = stop_tokens(stop_token_ids, self.model.vocabulary_size)
        tokens, lengths = self._checked(prompts, max_length)
        batch, index = tokens.shape
        width = index + decoding.bucket(max_length)
        fill = self._fill(stops)
        prompt = np.full((batch * count, width), fill, "int32")
        for row, (tokens_of_row, length) in enumerate(zip(tokens, lengths)):
            rows = slice(row * count, (row + 1) * count)
            prompt[rows, index - length : index] = tokens_of_row[:length]

        def begin(inputs: Any, length: int) -> tuple[Any, Any, int]:
            both = self.model.begin(inputs, length)
            if count > 1:  # process each prompt once for all its sequences
                both = keras.tree.map_structure(
                    lambda x: ops.repeat(x, count, axis=0), both
                )
            return (*both, inputs["tokens"].shape[1])

        inputs = {"tokens": tokens, "length": lengths}
        outputs = self.write(
            begin,
            inputs,
            prompt,
            index,
            max_length,
            sampler,
            stops,
            seed,
            count,
            fill=fill,
        )
        if count == 1:
            return outputs
        return keras.tree.map_structure(
            lambda x: x.reshape(batch, count, *x.shape[1:]), outputs
        )

    def graph(
        self, sampler: Any, max_length: int, stop_token_ids: Any
    ) -> Callable[[Tensor], Tensor]:
        """Returns a function from prompts to tokens, for a graph of open sizes.

        It maps prompts (B, P), padded at the end, to integers (B, max_length).
        """
        positive("max_length", max_length)
        stops = stop_tokens(stop_token_ids, self.model.vocabulary_size)

        def begin(inputs: Any, length: Any) -> tuple[Any, Any, Any]:
            return (*self.model.begin(inputs, length), ops.shape(inputs["tokens"])[1])

        program = self.write.program(begin, sampler, stops)

        def write(tokens: Tensor) -> Tensor:
            # The first pass leaves out the last column, and a prompt may have only one.
            is_token = self._is_token(tokens)
            fill = self._fill(stops)
            tokens = ops.pad(tokens, ((0, 0), (0, 1)), constant_values=fill)  # (B, P)
            count = ops.shape(tokens)[1]
            lengths = ops.sum(ops.cast(is_token, "int32"), axis=1)
            column = masks.positions(count)[None]
            source = column - (count - lengths[:, None])  # (B, P)
            aligned = ops.take_along_axis(tokens, ops.maximum(source, 0), axis=1)
            aligned = ops.where(source >= 0, aligned, fill)
            room = ((0, 0), (0, max_length))
            prompt = ops.pad(aligned, room, constant_values=fill)
            inputs = {"tokens": tokens, "length": lengths}
            return program(inputs, prompt, count + max_length, None)[:, count:]

        return write

    def rules(self, max_length: int) -> kernels.Rules:
        """Returns the rules of prompts in a graph, or raises a ValueError."""
        most = self.model.positions
        if most is not None and max_length >= most:
            raise ValueError(
                "`max_length` must be below the number of positions that the model "
                f"has learned. Received: max_length={max_length}, {most} positions"
            )
        longest = None if most is None else most - max_length
        size = self.model.vocabulary_size
        return kernels.Rules(size, longest, True, self.pad_token_id)

    def _fill(self, stops: tuple[int, ...] | None) -> int:
        """Returns the token after a stop token: padding, or else a stop token."""
        if self.pad_token_id is not None:
            return self.pad_token_id
        return stops[0] if stops else 0  # 0 where all tokens are generated

    def _is_token(self, tokens: Tensor) -> Tensor:
        """Returns which tokens (B, P) are not padding, as booleans."""
        if self.pad_token_id is None:
            return ops.ones_like(tokens, dtype="bool")
        return ops.not_equal(tokens, self.pad_token_id)

    def _checked(self, prompts: Any, max_length: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the prompts (B, P), padded at the end, and their lengths (B,)."""
        pad = self.pad_token_id
        tokens = as_tokens("tokens", _rows(prompts, pad), self.model.vocabulary_size)
        if pad is None:  # the rows of a list give the lengths, those of an array P
            lengths = np.array([len(row) for row in prompts])
            is_token = np.arange(tokens.shape[1]) < lengths[:, None]
        else:
            is_token = tokens != pad
            lengths = is_token.sum(1)
        inside = np.arange(tokens.shape[1]) < lengths[:, None]
        if not lengths.all() or (inside != is_token).any():
            behind = "" if pad is None else f", and padding, {pad}, behind them alone"
            raise ValueError(
                f"`tokens` must hold at least one token a row{behind}. "
                f"Received: rows of {lengths.tolist()} tokens in "
                f"{tokens.shape[1]} positions"
            )
        longest, most = int(lengths.max()), self.model.positions
        if most is not None and longest + max_length > most:
            raise ValueError(
                "The longest prompt and `max_length` together must not exceed the "
                f"positions that the model has learned. Received: a prompt of {longest}"
                f" tokens, max_length={max_length}, {most} positions"
            )
        return padded(tokens[:, :longest], most), lengths.astype("int32")


def _rows(prompts: Any, pad_token_id: int | None) -> Any:
    """Pads lists of unequal length at the end; returns other prompts unchanged."""
    if not isinstance(prompts, (list, tuple)):
        return prompts
    rows = [np.asarray(row) for row in prompts]
    if not rows or any(row.ndim != 1 for row in rows):
        return prompts
    width = max(len(row) for row in rows)
    pad = pad_token_id or 0
    return np.stack(
        [np.pad(row, (0, width - len(row)), constant_values=pad) for row in rows]
    )
