"""How a model writes sequences: its steps, a sampler, and one program for a bucket.

Shapes: B batch, S words of a source, T words of a target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.ops import kernels
from keras_attention.samplers import Sampler

BUCKET = 16  # lengths are padded to multiples of it


class Generator:
    """Runs a model's `begin` and `next` under a sampler, compiled.

    Args:
        model: with `begin(inputs) -> (cache, static)`, KerasHub's
            `next(prompt, cache, index, static)` and `target_vocabulary_size`.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.programs: dict[Any, Callable] = {}

    def __call__(
        self,
        inputs: dict[str, Any],
        max_length: int,
        sampler: Any,
        start_token_id: int,
        stop_token_ids: Any,
        seed: int | None,
    ) -> Any:
        """See `Seq2Seq.generate`."""
        if max_length < 1:
            raise ValueError(
                "`max_length` must be at least 1, one token to write. "
                f"Received: max_length={max_length}"
            )
        size = self.model.target_vocabulary_size
        if not 0 <= start_token_id < size:
            raise ValueError(
                f"`start_token_id` must be a token below {size}, the size of the "
                f"vocabulary. Received: start_token_id={start_token_id}"
            )
        stops = _tokens(stop_token_ids, size)
        arrays = {name: _padded(name, array) for name, array in inputs.items()}
        batch = len(next(iter(arrays.values())))
        length = 1 + -(-max_length // BUCKET) * BUCKET
        prompt = np.zeros((batch, length), "int32")
        prompt[:, 0] = start_token_id
        draws = None
        if isinstance(sampler, Sampler):
            draws = sampler.draw(batch, length, seed)
        end = np.asarray(1 + max_length, "int32")
        found = self._program(sampler, stops)(arrays, prompt, end, draws)
        found = keras.tree.map_structure(ops.convert_to_numpy, found)
        tokens = found[0] if isinstance(found, tuple) else found
        tokens = tokens[..., 1 : 1 + max_length]
        return (tokens, *found[1:]) if isinstance(found, tuple) else tokens

    def _program(self, sampler: Any, stops: tuple[int, ...] | None) -> Callable:
        ours = isinstance(sampler, Sampler)
        key = (sampler.key if ours else id(sampler), stops)
        if key not in self.programs:
            self.programs[key] = self._compiled(sampler, stops, ours)
        return self.programs[key]

    def _compiled(
        self, sampler: Any, stops: tuple[int, ...] | None, ours: bool
    ) -> Callable:
        model = self.model

        def run(inputs: Any, prompt: Any, end: Any, draws: Any) -> Any:
            cache, static = model.begin(inputs)
            if ours:
                return sampler(
                    model.next,
                    prompt,
                    cache=cache,
                    index=1,
                    stop_token_ids=stops,
                    static=static,
                    max_length=end,
                    draws=draws,
                )
            # KerasHub's samplers carry all they are given from step to step.
            return sampler(
                lambda prompt, cache, index: _unpacked(model, prompt, cache, index),
                prompt,
                cache=(cache, static),
                index=1,
                stop_token_ids=stops,
                mask=ops.zeros_like(prompt, dtype="bool"),
                model=model,
            )

        variables = list(model.variables)
        if hasattr(sampler, "variables"):
            variables += list(sampler.variables)
        return kernels.compiled(run, variables, False)


def _unpacked(model: Any, prompt: Any, cache: Any, index: Any) -> tuple:
    own, static = cache
    logits, hidden, own = model.next(prompt, own, index, static)
    return logits, hidden, (own, static)


def _tokens(given: Any, size: int) -> tuple[int, ...] | None:
    if given is None:
        return None
    tokens = tuple(int(t) for t in np.atleast_1d(given))
    for token in tokens:
        if not 0 <= token < size:
            raise ValueError(
                f"`stop_token_ids` must be tokens below {size}, the size of the "
                f"vocabulary. Received: {token}"
            )
    return tokens


def _padded(name: str, array: Any) -> np.ndarray:
    """Integers (B, S), with padding behind them up to a bucket's length."""
    array = np.asarray(ops.convert_to_numpy(array))
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer) or not array.size:
        raise ValueError(
            f"`{name}` must be integers of shape (batch, length), at least one. "
            f"Received: dtype={array.dtype}, shape={array.shape}"
        )
    more = -array.shape[1] % BUCKET
    return np.pad(array, ((0, 0), (0, more))).astype("int32")
