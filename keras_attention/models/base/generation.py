"""Generation of sequences by a model and a sampler, compiled once per bucket.

Shapes: B batch, S words of a source, T words of a target, R rows of a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import kernels, samplers
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.checked import check_ids
from keras_attention.ops.sequence import decoding

Tensor = Any
Begin = Callable[[Any, int], tuple[Any, Any, int]]


class Writer:
    """Runs a model's compiled `next` with any sampler, for all `generate` methods."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.functions = decoding.CompiledFunctions(model)

    def __call__(
        self,
        begin: Begin,
        inputs: Any,
        prompt: np.ndarray,
        index: int,
        max_length: int,
        sampler: Any,
        stops: tuple[int, ...] | None,
        seed: int | None,
        *key: Hashable,
        fill: int = 0,
    ) -> Any:
        """Generates tokens after a prompt.

        Args:
            begin: f(inputs, length) that returns the first cache, the read-only
                arguments of `next`, and `index`, the index of the first token to
                generate.
            inputs: arrays, the inputs of `begin`.
            prompt: int32 (R, ·), with space for `max_length` tokens after `index`.
            index: the index that `begin` will return.
            max_length: the maximum number of tokens to generate.
            sampler: a sampler or its name.
            stops: tokens that end a sequence, or None.
            seed: the seed of a random sampler.
            *key: values that distinguish `begin` from the model's other `begin`
                functions.
            fill: the token after a stop token, which the prompt has behind its tokens.

        Returns:
            The tokens, int32 (R, max_length), or a tuple of them and the sampler's
            further outputs.
        """
        sampler = samplers.get(sampler)
        end = index + max_length
        if isinstance(sampler, samplers.Sampler):
            outputs = self.functions(
                (sampler.key, stops, *key),
                self.program(begin, sampler, stops),
                inputs,
                prompt,
                np.asarray(end, "int32"),
                sampler.draw(len(prompt), prompt.shape[1], seed),
            )
        else:
            outputs = self.functions(
                (sampler, stops, *key),
                self._run_hub(begin, sampler, stops),
                inputs,
                prompt[:, :end],
                variables=getattr(sampler, "variables", ()),
            )
        outputs = keras.tree.map_structure(ops.convert_to_numpy, outputs)
        tokens = outputs[0] if isinstance(outputs, tuple) else outputs
        tokens = fill_after_stop(tokens[..., index:end], stops, fill)
        return (tokens, *outputs[1:]) if isinstance(outputs, tuple) else tokens

    def program(self, begin: Begin, sampler: Any, stops: Any) -> Callable:
        """Builds the program for a sampler of this package, which stops at `end`."""

        def run(inputs: Any, prompt: Tensor, end: Any, draws: Any) -> Any:
            cache, static, index = begin(inputs, ops.shape(prompt)[1])
            return sampler(
                self.model.next,
                prompt,
                cache=cache,
                index=index,
                stop_token_ids=stops,
                static=static,
                max_length=end,
                draws=draws,
            )

        return run

    def _run_hub(self, begin: Begin, sampler: Any, stops: Any) -> Callable:
        """Builds the program for a KerasHub sampler, which fills the whole prompt."""

        def run(inputs: Any, prompt: Tensor) -> Any:
            cache, static, index = begin(inputs, prompt.shape[1])
            step, cache = as_hub(self.model.next, cache, static)
            is_given = ops.arange(prompt.shape[1])[None] < index
            return sampler(
                step,
                prompt,
                cache=cache,
                index=index,
                stop_token_ids=stops,
                mask=ops.broadcast_to(is_given, ops.shape(prompt)),
                model=self.model,
            )

        return run


class Generator:
    """Generates a sequence for each input of a model, from a start token.

    Args:
        model: a model with `begin(inputs) -> (cache, static)`, `next` and
            `target_vocabulary_size`.
        sequences: the number of ids by the name of each input that is a sequence,
            integers (B, S) with 0 for padding, which is padded to the length of a
            bucket.
        cached: whether `begin` is called as `begin(inputs, length)`, with the length of
            the padded prompt.
        positions: the number of learned positions; None for no limit.
        name: the name of the input; by default the first of `sequences`.
    """

    def __init__(
        self,
        model: Any,
        sequences: dict[str, int],
        cached: bool = False,
        positions: int | None = None,
        name: str | None = None,
    ) -> None:
        self.model = model
        self.positions = positions
        self.sequences = sequences
        self.cached = cached
        self.input = name or next(iter(sequences))
        self.write = Writer(model)

    def __call__(
        self,
        inputs: dict[str, Any],
        max_length: int,
        sampler: Any,
        start_token_id: int,
        stop_token_ids: Any,
        seed: int | None,
    ) -> Any:
        """Generates a sequence for each input; see `GeneratesTargets.generate`."""
        positive("max_length", max_length)
        size = self.model.target_vocabulary_size
        decoding.check_tokens("start_token_id", start_token_id, size)
        stops = stop_tokens(stop_token_ids, size)
        arrays = {
            name: padded(as_tokens(name, values, self.sequences[name]), self.positions)
            if name in self.sequences
            else np.asarray(ops.convert_to_numpy(values))
            for name, values in inputs.items()
        }
        first = np.full((len(next(iter(arrays.values()))), 1), start_token_id)
        prompt = decoding.open_prompt(first, 1 + max_length).tokens
        return self.write(
            self._begin, arrays, prompt, 1, max_length, sampler, stops, seed
        )

    def graph(
        self, sampler: Any, max_length: int, start_token_id: int, stop_token_ids: Any
    ) -> Callable[[Tensor], Tensor]:
        """Returns a function from the input to the tokens, for a graph of open sizes.

        It maps one tensor (B, ...) to integers (B, T), where T is `max_length`.
        """
        positive("max_length", max_length)
        size = self.model.target_vocabulary_size
        decoding.check_tokens("start_token_id", start_token_id, size)
        program = self.write.program(
            self._begin, sampler, stop_tokens(stop_token_ids, size)
        )

        def write(source: Tensor) -> Tensor:
            prompt = ops.zeros((ops.shape(source)[0], 1), "int32") + start_token_id
            prompt = ops.pad(prompt, ((0, 0), (0, max_length)))  # (B, 1 + T)
            return program({self.input: source}, prompt, 1 + max_length, None)[:, 1:]

        return write

    def rules(self, max_length: int) -> kernels.Rules:
        """Returns the rules of the input in a graph, or raises a ValueError."""
        if self.positions is not None and max_length > self.positions:
            raise ValueError(
                "`max_length` must not exceed the positions that the model has "
                f"learned. Received: max_length={max_length}, {self.positions} "
                "positions"
            )
        if not self.sequences:
            return kernels.Rules()
        return kernels.Rules(self.model.source_vocabulary_size, self.positions)

    def _begin(self, inputs: Any, length: int) -> tuple[Any, Any, int]:
        lengths = (length,) if self.cached else ()
        return (*self.model.begin(inputs, *lengths), 1)


def named_input(name: str, inputs: Any) -> Any:
    """Returns the entry `name` of a dict, or raises a ValueError; else the inputs."""
    if not isinstance(inputs, dict):
        return inputs
    if name not in inputs:
        raise ValueError(f"`inputs` must hold {name!r}. Received: {list(inputs)}")
    return inputs[name]


def stop_tokens(values: Any, size: int) -> tuple[int, ...] | None:
    """Validates one stop token or several; returns a tuple, or None for none."""
    if values is None:
        return None
    stops = tuple(int(token) for token in np.atleast_1d(values))
    decoding.check_tokens("stop_token_ids", stops, size)
    return stops


def as_tokens(name: str, values: Any, vocabulary: int) -> np.ndarray:
    """Returns tokens as NumPy int32 (B, T).

    Raises:
        ValueError: if the tokens are not integers (B, T), are empty, or are outside the
            vocabulary.
    """
    tokens = np.asarray(ops.convert_to_numpy(values))
    integers = np.issubdtype(tokens.dtype, np.integer)
    if tokens.ndim != 2 or not integers or not tokens.size:
        raise ValueError(
            f"`{name}` must be integers of shape (batch, length), both at least 1: "
            "ids of tokens, an array or lists of one length. "
            f"Received: dtype={tokens.dtype}, shape={tokens.shape}"
        )
    check_ids(name, tokens, vocabulary)
    return tokens.astype("int32")


def padded(tokens: np.ndarray, positions: int | None = None) -> np.ndarray:
    """Pads tokens (B, T) with 0 to the length of a bucket, at most `positions`."""
    length = tokens.shape[1]
    width = decoding.bucket(length)
    width = width if positions is None else min(width, positions)
    return np.pad(tokens, ((0, 0), (0, width - length)))


def as_hub(call: Callable, cache: Any, static: Any) -> tuple[Callable, list]:
    """Adapts a model's `next` and cache to KerasHub's samplers.

    These carry the whole state from step to step as a list of tensors. Returns their
    function f(prompt, cache, index), and the first cache as such a list.
    """
    both = (cache, static)
    leaves = keras.tree.flatten(both)

    def step(prompt: Any, cache: list, index: Any) -> tuple:
        tensors_left = iter(cache)
        filled = [None if x is None else next(tensors_left) for x in leaves]
        cache_of_model, static = keras.tree.pack_sequence_as(both, filled)
        logits, hidden, cache_of_model = call(prompt, cache_of_model, index, static)
        return logits, hidden, tensors((cache_of_model, static))

    return step, tensors(both)


def tensors(structure: Any) -> list:
    """Returns the leaves of a structure that are not None."""
    return [x for x in keras.tree.flatten(structure) if x is not None]


def fill_after_stop(
    tokens: np.ndarray, stops: tuple[int, ...] | None, fill: int
) -> np.ndarray:
    """Sets the tokens after the first stop token, unlike KerasHub's samplers."""
    ends = np.isin(tokens, stops or ())
    is_after_stop = np.cumsum(ends, axis=-1) > ends
    return np.where(is_after_stop, np.asarray(fill, tokens.dtype), tokens)
