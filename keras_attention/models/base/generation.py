"""How a model writes sequences: its steps, a sampler, and one program for a bucket.

Shapes: B batch, S words of a source, T words of a target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention.layers.base.arguments import positive
from keras_attention.ops.sequence import decoding
from keras_attention.samplers import Sampler


class Generator:
    """Runs a model's `begin` and `next` under a sampler, compiled.

    Args:
        model: with `begin(inputs) -> (cache, static)`, KerasHub's
            `next(prompt, cache, index, static)` and `target_vocabulary_size`.
        sequences: the names of the inputs that are integers (B, S), 0 for padding;
            they are padded to the length of a bucket. All others, such as pictures,
            go to `begin` as they are.
        cached: whether the model keeps something for each place: then it is
            `begin(inputs, length)`, with the length of the prompt, padding included.
    """

    def __init__(
        self,
        model: Any,
        sequences: Sequence[str] = ("source",),
        cached: bool = False,
    ) -> None:
        self.model = model
        self.sequences = tuple(sequences)
        self.cached = cached
        self.functions = decoding.CompiledFunctions(model)

    def __call__(
        self,
        inputs: dict[str, Any],
        max_length: int,
        sampler: Any,
        start_token_id: int,
        stop_token_ids: Any,
        seed: int | None,
        positions: int | None = None,
    ) -> Any:
        """See `Seq2Seq.generate`; `positions` is how many a sequence may have."""
        positive("max_length", max_length)
        stops = None
        if stop_token_ids is not None:
            stops = tuple(int(token) for token in np.atleast_1d(stop_token_ids))
        size = self.model.target_vocabulary_size
        decoding.check_tokens("start_token_id", start_token_id, size)
        decoding.check_tokens("stop_token_ids", stops, size)
        arrays = {
            name: self._array(name, given, positions) for name, given in inputs.items()
        }
        batch = len(next(iter(arrays.values())))
        first = np.full((batch, 1), start_token_id)
        prompt = decoding.open_prompt(first, 1 + max_length).tokens
        if isinstance(sampler, Sampler):
            end = np.asarray(1 + max_length, "int32")
            draws = sampler.draw(batch, prompt.shape[1], seed)
            key = (sampler.key, stops)
            run = self._ours(sampler, stops)
            found = self.functions(key, run, arrays, prompt, end, draws)
        else:
            found = self.functions(
                (sampler, stops),
                self._theirs(sampler, stops),
                arrays,
                prompt[:, : 1 + max_length],
                variables=getattr(sampler, "variables", ()),
            )
        found = keras.tree.map_structure(ops.convert_to_numpy, found)
        tokens = found[0] if isinstance(found, tuple) else found
        tokens = cut(tokens[..., 1 : 1 + max_length], stops)
        return (tokens, *found[1:]) if isinstance(found, tuple) else tokens

    def _ours(self, sampler: Any, stops: tuple[int, ...] | None) -> Any:
        """A sampler of this package, which stops at a length that it is given."""

        def run(inputs: Any, prompt: Any, end: Any, draws: Any) -> Any:
            cache, static = self.model.begin(inputs, *self._length(prompt))
            return sampler(
                self.model.next,
                prompt,
                cache=cache,
                index=1,
                stop_token_ids=stops,
                static=static,
                max_length=end,
                draws=draws,
            )

        return run

    def _theirs(self, sampler: Any, stops: tuple[int, ...] | None) -> Any:
        """One of KerasHub, which fills its prompt."""

        def run(inputs: Any, prompt: Any) -> Any:
            step, cache = begin(self.model, inputs, *self._length(prompt))
            return sampler(
                step,
                prompt,
                cache=cache,
                index=1,
                stop_token_ids=stops,
                mask=ops.zeros_like(prompt, dtype="bool"),
                model=self.model,
            )

        return run

    def _length(self, prompt: Any) -> tuple[int, ...]:
        """What `begin` wants besides the inputs."""
        return (prompt.shape[1],) if self.cached else ()

    def _array(self, name: str, given: Any, positions: int | None) -> np.ndarray:
        """An input in NumPy; a sequence is padded behind, up to a bucket's length."""
        if name not in self.sequences:
            return np.asarray(ops.convert_to_numpy(given))
        return padded(whole(name, given), positions)


def whole(name: str, given: Any, vocabulary: int | None = None) -> np.ndarray:
    """Tokens in NumPy, int32 (B, T).

    Args:
        name: of the argument.
        given: what was given for it.
        vocabulary: the number of tokens that there are; None if that is not known.

    Raises:
        ValueError: if they are no integers (B, T), not one, or not of the vocabulary.
    """
    tokens = np.asarray(ops.convert_to_numpy(given))
    integers = np.issubdtype(tokens.dtype, np.integer)
    if tokens.ndim != 2 or not integers or not tokens.size:
        raise ValueError(
            f"`{name}` must be integers of shape (batch, length), both at least 1: "
            "ids of tokens, an array or lists of one length. "
            f"Received: dtype={tokens.dtype}, shape={tokens.shape}"
        )
    if vocabulary and (tokens.min() < 0 or tokens.max() >= vocabulary):
        raise ValueError(
            f"`{name}` must hold tokens of the vocabulary, at least 0 and below its "
            f"size. Received: from {tokens.min()} to {tokens.max()}, a vocabulary of "
            f"{vocabulary}"
        )
    return tokens.astype("int32")


def padded(tokens: np.ndarray, positions: int | None = None) -> np.ndarray:
    """Tokens (B, T) with 0 behind them, up to the length of a bucket.

    Args:
        tokens: integers.
        positions: how many positions there are, at least T; None for no end of them.
    """
    length = tokens.shape[1]
    width = decoding.bucket(length)
    width = width if positions is None else min(width, positions)
    return np.pad(tokens, ((0, 0), (0, width - length)))


def begin(model: Any, inputs: Any, *length: int) -> tuple[Callable, list]:
    """A model's `next` and cache as KerasHub's samplers take them.

    They carry all that `next` is given from step to step, as tensors alone.

    Args:
        model: see `Generator`.
        inputs: what `model.begin` takes.
        *length: of the prompt, if `model.begin` takes that, too.

    Returns:
        f(prompt, cache, index), and the first cache.
    """
    both = model.begin(inputs, *length)
    leaves = keras.tree.flatten(both)

    def step(prompt: Any, cache: list, index: Any) -> tuple:
        rest = iter(cache)
        filled = [None if x is None else next(rest) for x in leaves]
        own, static = keras.tree.pack_sequence_as(both, filled)
        logits, hidden, own = model.next(prompt, own, index, static)
        return logits, hidden, there((own, static))

    def there(structure: Any) -> list:
        return [x for x in keras.tree.flatten(structure) if x is not None]

    return step, there(both)


def cut(tokens: np.ndarray, stops: tuple[int, ...] | None) -> np.ndarray:
    """0 behind the first stop token of a row, where KerasHub's samplers go on."""
    ends = np.isin(tokens, stops or ())
    behind = np.cumsum(ends, axis=-1) > ends
    return np.where(behind, 0, tokens)
