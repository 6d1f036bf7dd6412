"""How a language model goes on with prompts of unequal length, all at one place.

Shapes: B prompts, N sequences for each, P places for prompts, T tokens in all.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.models.base.generation import begin, cut, padded, whole
from keras_attention.ops.sequence import decoding
from keras_attention.samplers import Sampler

Tensor = Any


class Continuation:
    """Runs a model's `begin` and `next` behind prompts, compiled.

    Prompts are moved so that all of them end at one place, P: behind it, every row
    writes at the same index, and what is in front of a shorter prompt is masked.

    Args:
        model: with `begin(inputs, places) -> (cache, static)`, KerasHub's
            `next(prompt, cache, index, static)`, `vocabulary_size` and `positions`, the
            number of positions it knows, or None.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.functions = decoding.CompiledFunctions(model)

    def __call__(
        self,
        prompts: Any,
        max_length: int,
        sampler: Any,
        stop_token_ids: Any,
        seed: int | None,
        count: int,
    ) -> Any:
        """See `CausalLM.generate`."""
        positive("max_length", max_length)
        positive("num_sequences", count)
        stops = None
        if stop_token_ids is not None:
            stops = tuple(int(token) for token in np.atleast_1d(stop_token_ids))
        decoding.check_tokens("stop_token_ids", stops, self.model.vocabulary_size)
        tokens, lengths = self._checked(prompts, max_length)
        batch, start = tokens.shape
        inputs = {"tokens": tokens, "length": lengths}
        ours = isinstance(sampler, Sampler)
        room = decoding.bucket(max_length) if ours else max_length
        prompt = np.zeros((batch * count, start + room), "int32")
        for row, (one, length) in enumerate(zip(tokens, lengths)):
            rows = slice(row * count, (row + 1) * count)
            prompt[rows, start - length : start] = one[:length]
        if ours:
            found = self.functions(
                (sampler.key, stops, count),
                self._ours(sampler, stops, count),
                inputs,
                prompt,
                np.asarray(start + max_length, "int32"),
                sampler.draw(*prompt.shape, seed),
            )
        else:
            found = self.functions(
                (sampler, stops, count),
                self._theirs(sampler, stops, count),
                inputs,
                prompt,
                variables=getattr(sampler, "variables", ()),
            )
        found = keras.tree.map_structure(ops.convert_to_numpy, found)
        written = found[0] if isinstance(found, tuple) else found
        written = cut(written[..., start : start + max_length], stops)
        found = (written, *found[1:]) if isinstance(found, tuple) else written
        if count == 1:
            return found
        return keras.tree.map_structure(
            lambda x: x.reshape(batch, count, *x.shape[1:]), found
        )

    def _ours(self, sampler: Any, stops: tuple[int, ...] | None, count: int) -> Any:
        """A sampler of this package, which stops at a length that it is given."""

        def run(inputs: Any, prompt: Tensor, end: Any, draws: Any) -> Any:
            cache, static = self._begin(inputs, prompt.shape[1], count)
            return sampler(
                self.model.next,
                prompt,
                cache=cache,
                index=inputs["tokens"].shape[1],
                stop_token_ids=stops,
                static=static,
                max_length=end,
                draws=draws,
            )

        return run

    def _theirs(self, sampler: Any, stops: tuple[int, ...] | None, count: int) -> Any:
        """One of KerasHub, which fills its prompt."""

        def run(inputs: Any, prompt: Tensor) -> Any:
            one = SimpleNamespace(
                begin=lambda given: self._begin(given, prompt.shape[1], count),
                next=self.model.next,
            )
            step, cache = begin(one, inputs)
            return sampler(
                step,
                prompt,
                cache=cache,
                index=inputs["tokens"].shape[1],
                stop_token_ids=stops,
                # Behind the prompt nothing is given; a stop token in it is no end.
                mask=_given(prompt, inputs["tokens"].shape[1]),
                model=self.model,
            )

        return run

    def _begin(self, inputs: Any, places: int, count: int) -> tuple[Any, Any]:
        """Reads each prompt once, for all sequences that are to go on from it."""
        both = self.model.begin(inputs, places)
        if count == 1:
            return both
        return keras.tree.map_structure(lambda x: ops.repeat(x, count, axis=0), both)

    def _checked(self, prompts: Any, max_length: int) -> tuple[np.ndarray, np.ndarray]:
        """The prompts (B, P), padded behind, and their lengths (B,)."""
        tokens = whole("tokens", _rows(prompts), self.model.vocabulary_size)
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


def _given(prompt: Tensor, start: int) -> Tensor:
    """Where the prompts stand in (B·N, T)."""
    there = ops.arange(prompt.shape[1])[None] < start
    return ops.broadcast_to(there, ops.shape(prompt))


def _rows(prompts: Any) -> Any:
    """Prompts as they are given; lists of unequal length are padded behind."""
    if not isinstance(prompts, (list, tuple)):
        return prompts
    rows = [np.asarray(row) for row in prompts]
    if not rows or any(row.ndim != 1 for row in rows):
        return prompts
    width = max(len(row) for row in rows)
    return np.stack([np.pad(row, (0, width - len(row))) for row in rows])
