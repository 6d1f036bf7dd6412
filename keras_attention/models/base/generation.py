"""Models that generate tokens: their methods, programs and export as a SavedModel.

Shapes: B batch, S words of a source, P positions of the prompts, T generated tokens, V
vocabulary, N sequences per prompt, R rows of a prompt.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Hashable
from functools import cached_property, partial
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attention import kernels, samplers
from keras_attention.layers.base.arguments import positive
from keras_attention.layers.base.checked import check_ids
from keras_attention.numerics import masks
from keras_attention.ops.sequence import decoding

Path = str | os.PathLike[str]
Tensor = Any
Begin = Callable[[Any, int], tuple[Any, Any, int]]


class Generates:
    """Mixin of models with KerasHub's protocol; see `keras_attention.samplers`.

    A subclass has `begin` and `next`, runs them with any sampler, and writes a
    SavedModel of the function that its `_generation_graph` returns.
    """

    _input: str  # the name of the input that `generate` takes
    begin: Any

    @abc.abstractmethod
    def next(self, prompt: Tensor, cache: Any, index: Any, static: Any) -> Any:
        """Returns the logits of the token at `index`, given the token before it.

        Args:
            prompt: (B, T).
            cache: the cache returned by `begin` or by the previous call.
            index: the position, at least 1, or at least P after prompts.
            static: the read-only arguments returned by `begin`.

        Returns:
            Logits (B, V), the hidden state that they are computed from (B, ·), and the
            cache.
        """

    @cached_property
    def _programs(self: Any) -> decoding.CompiledFunctions:
        return decoding.CompiledFunctions(self)

    def _write(
        self: Any,
        begin: Begin,
        inputs: Any,
        prompt: np.ndarray,
        index: int,
        max_length: int,
        sampler: Any,
        stops: tuple[int, ...],
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
            sampler: a sampler.
            stops: tokens that end a sequence.
            seed: the seed of a random sampler.
            *key: values that distinguish `begin` from the model's other `begin`
                functions.
            fill: the token after a stop token, which the prompt has behind its tokens.

        Returns:
            The tokens, int32 (R, max_length), or a tuple of them and the sampler's
            further outputs.
        """
        end = index + max_length
        if isinstance(sampler, samplers.Sampler):
            outputs = self._programs(
                (sampler.key, stops, *key),
                self._program(begin, sampler, stops),
                inputs,
                prompt,
                np.asarray(end, "int32"),
                sampler.draw(len(prompt), prompt.shape[1], seed),
                objects=[sampler, *vars(sampler).values()],
            )
        else:
            outputs = self._programs(
                (sampler.__call__, stops, *key),  # equal for the same object alone
                self._hub_program(begin, sampler, stops),
                inputs,
                prompt[:, :end],
                variables=getattr(sampler, "variables", ()),
                objects=[sampler],
            )
        outputs = keras.tree.map_structure(ops.convert_to_numpy, outputs)
        tokens = outputs[0] if isinstance(outputs, tuple) else outputs
        tokens = tokens[..., index:end]
        ends = np.isin(tokens, stops)  # unlike here, KerasHub writes after a stop
        is_after_stop = np.cumsum(ends, axis=-1) > ends
        tokens = np.where(is_after_stop, np.asarray(fill, tokens.dtype), tokens)
        return (tokens, *outputs[1:]) if isinstance(outputs, tuple) else tokens

    def _program(self, begin: Begin, sampler: Any, stops: Any) -> Callable:
        """Builds the program for a sampler of this package, which stops at `end`."""

        def run(inputs: Any, prompt: Tensor, end: Any, draws: Any) -> Any:
            cache, static, index = begin(inputs, ops.shape(prompt)[1])
            return sampler(
                self.next,
                prompt,
                cache=cache,
                index=index,
                stop_token_ids=stops,
                static=static,
                max_length=end,
                draws=draws,
                model=self,
            )

        return run

    def _hub_program(self, begin: Begin, sampler: Any, stops: Any) -> Callable:
        """Builds the program for a KerasHub sampler, which fills the whole prompt."""

        def run(inputs: Any, prompt: Tensor) -> Any:
            cache, static, index = begin(inputs, prompt.shape[1])
            step, cache = as_hub(self.next, cache, static)
            is_given = ops.arange(prompt.shape[1])[None] < index
            return sampler(
                step,
                prompt,
                cache=cache,
                index=index,
                stop_token_ids=stops or None,
                mask=ops.broadcast_to(is_given, ops.shape(prompt)),
                model=self,
            )

        return run

    def _save_generation(
        self: Any, path: Path, sampler: Any, max_length: int, *tokens: Any
    ) -> None:
        """Writes a SavedModel of the function that `_generation_graph` returns."""
        sampler = in_graph(sampler)
        write = self._generation_graph(sampler, max_length, *tokens)
        symbol = self.input[self._input]
        spec = keras.InputSpec(symbol.dtype, shape=symbol.shape, name=self._input)
        rules = self._generation_rules(max_length)
        plain = type(sampler) is samplers.GreedySampler
        kernels.save_function(os.fspath(path), self, write, spec, rules, plain)


class GeneratesTargets(Generates):
    """Mixin of models that generate a sequence from a start token.

    Its `_source` and `_begin` are for a source of tokens. A model with other inputs, or
    whose `begin` takes the length of the prompt, overrides them.
    """

    _input = "source"
    _positions: int | None = None  # the number of learned positions
    source_vocabulary_size: int | None = None  # None for another input
    target_vocabulary_size: Any

    @property
    def _source_ids(self) -> int | None:
        """The number of ids that a source may have; None for another input."""
        size = self.source_vocabulary_size
        return size and size + getattr(self, "extra_ids", 0)

    def generate(
        self,
        inputs: Any,
        max_length: int = 64,
        sampler: Any = "greedy",
        start_token_id: int = 2,
        stop_token_ids: Any = 3,
        seed: int | None = None,
    ) -> np.ndarray:
        """Generates a target for each source, image or set of features.

        The source is encoded once, and a `Transformer` caches the keys and values of
        the generated tokens. The program is compiled once per batch size and bucket of
        lengths; see `keras_attention.ops.sequence.decoding.bucket`. Other lengths in
        the same bucket need no compilation. KerasHub's samplers cannot stop at a given
        length, so they are compiled for each `max_length`.

        Args:
            inputs: a dict with the input that is not the target, "source" (B, S),
                "image" or "features"; or only its array. Sources are integers, 0 for
                padding at the end; they may be lists of unequal length.
            max_length: the maximum number of tokens to generate.
            sampler: "greedy", "beam", "random", "top_k", "top_p", or a sampler of
                `keras_attention.samplers` or of KerasHub. With a `Transformer`, a beam
                search cannot use a coverage penalty, because each layer has separate
                heads.
            start_token_id: the token before the first generated token.
            stop_token_ids: the token or tokens that end a target, integers (not 4.0);
                None for no stop token.
            seed: the seed of a random sampler.

        Returns:
            int32 (B, max_length), without the start token, 0 after a stop token.

        Raises:
            ValueError: for sources that are not integers (B, S), or images of another
                shape; tokens outside their vocabulary; a `max_length` below 1; a source
                or target longer than the learned positions; or an `attention` that
                cannot run step by step.
        """
        stops = self._checked_stops(max_length, start_token_id, stop_token_ids)
        sampler = samplers.get(sampler)
        source = self._source(named_input(self._input, inputs), max_length)
        first = np.full((len(source), 1), start_token_id)
        prompt = decoding.open_prompt(first, 1 + max_length).tokens
        arrays, begin = {self._input: source}, self._begin
        return self._write(begin, arrays, prompt, 1, max_length, sampler, stops, seed)

    def export_generation(
        self,
        path: Path,
        sampler: Any = "greedy",
        max_length: int = 64,
        start_token_id: int = 2,
        stop_token_ids: Any = 3,
    ) -> None:
        """Writes a SavedModel that does what `generate` does, with its loop.

        The file has one endpoint, `serve`, for any batch size and any length. It maps
        the sources, int32 (B, S), or the images or features of an `ImageCaptioner`,
        float32, to int32 (B, max_length), the array that `generate` returns. Running
        the file needs `tensorflow`, but neither Keras nor this package:

        ```python
        import tensorflow as tf

        served = tf.saved_model.load("generation")  # keep it: it holds the weights
        ids = served.serve(tf.constant([[5, 6, 3]]))
        ```

        A token outside the vocabulary raises an error when the file runs.

        The export runs on TensorFlow. The sampler "greedy" also runs on JAX, with
        TensorFlow installed. Otherwise, save the model, load it in a process with
        KERAS_BACKEND=tensorflow, and export it there.

        Args:
            path: the folder to write to.
            sampler: the name of a sampler of `keras_attention.samplers`, or a sampler.
                A random sampler restarts with the same random numbers in each process
                that loads the file.
            max_length: the maximum number of tokens to generate.
            start_token_id: the token before the first generated token.
            stop_token_ids: the token or tokens that end a sequence; None for no stop
                token.

        Raises:
            ImportError: TensorFlow is not installed.
            ValueError: the backend is neither TensorFlow nor JAX; the sampler is from
                KerasHub, returns all beams, or is not "greedy" on JAX; `max_length` is
                below 1 or exceeds the learned positions; or a token is outside the
                vocabulary.
        """
        tokens = start_token_id, stop_token_ids
        self._save_generation(path, sampler, max_length, *tokens)

    def _generation_graph(
        self, sampler: Any, max_length: int, start_token_id: int, stop_token_ids: Any
    ) -> Callable[[Tensor], Tensor]:
        """Returns a function from the input to the tokens, for a graph of open sizes.

        It maps one tensor (B, ...) to integers (B, T), where T is `max_length`.
        """
        stops = self._checked_stops(max_length, start_token_id, stop_token_ids)
        program = self._program(self._begin, sampler, stops)

        def write(source: Tensor) -> Tensor:
            prompt = ops.zeros((ops.shape(source)[0], 1), "int32") + start_token_id
            prompt = ops.pad(prompt, ((0, 0), (0, max_length)))  # (B, 1 + T)
            return program({self._input: source}, prompt, 1 + max_length, None)[:, 1:]

        return write

    def _generation_rules(self, max_length: int) -> kernels.Rules:
        """Returns the rules of the input in a graph, or raises a ValueError."""
        if self._positions is not None and max_length > self._positions:
            raise ValueError(
                "`max_length` must not exceed the positions that the model has "
                f"learned. Received: max_length={max_length}, {self._positions} "
                "positions"
            )
        return kernels.Rules(self._source_ids, self._positions)

    def _source(self, source: Any, max_length: int) -> np.ndarray:
        """Returns the input of `generate`, checked and padded to a bucket."""
        size: Any = self._source_ids
        source = as_tokens(self._input, _rows(source, 0), size)
        length, positions = source.shape[1], self._positions
        if positions is not None and max(length, max_length) > positions:
            raise ValueError(
                f"`{self._input}` and `max_length` must not exceed the positions that "
                f"are learned. Received: {length} tokens, max_length={max_length}, "
                f"{positions} positions"
            )
        return padded(source, positions)

    def _checked_stops(
        self, max_length: int, start_token_id: int, stop_token_ids: Any
    ) -> tuple[int, ...]:
        """Checks the arguments of `generate`, and returns the stop tokens."""
        positive("max_length", max_length)
        size = self.target_vocabulary_size
        if len(decoding.check_tokens("start_token_id", start_token_id, size)) != 1:
            raise ValueError(
                f"`start_token_id` must be one integer. Received: {start_token_id=}"
            )
        return decoding.check_tokens("stop_token_ids", stop_token_ids, size)

    def _begin(self, inputs: Any, length: int) -> tuple[Any, Any, int]:
        return (*self.begin(inputs), 1)


class ContinuesPrompts(Generates):
    """Mixin of models that continue prompts.

    Prompts are aligned to end at the same position P, so that every row writes at the
    same index. Positions before a shorter prompt are masked. With the `pad_token_id`
    None, no token is padding. The `positions` of the model are its maximum number of
    positions; None for no limit.
    """

    _input = "tokens"
    pad_token_id: int | None = 0
    positions: Any
    vocabulary_size: Any

    def generate(
        self,
        inputs: Any,
        max_length: int = 64,
        sampler: Any = "greedy",
        stop_token_ids: Any = None,
        seed: int | None = None,
        num_sequences: int = 1,
    ) -> np.ndarray:
        """Continues prompts, which may have unequal lengths.

        Each prompt is processed once. Each new token then takes one step, on a cache of
        fixed size or from the stored states. The program is compiled once per batch
        size and bucket of lengths; see `keras_attention.ops.sequence.decoding.bucket`.
        KerasHub's samplers cannot stop at a given length, so they are compiled for each
        `max_length`.

        Args:
            inputs: {"tokens": (B, ·)}, or only the array: integers, padding after
                shorter prompts; or a list of lists of integers. Without a
                `pad_token_id`, the rows of an array are prompts of equal length.
            max_length: the maximum number of tokens to generate, without the prompt.
                With learned positions, the longest prompt and these tokens together
                must not exceed the model's own `max_length`. The default, 64, is
                therefore too large for a model with a `max_length` of 64 or less.
            sampler: "greedy", "beam", "random", "top_k", "top_p", or a sampler of
                `keras_attention.samplers` or of KerasHub.
            stop_token_ids: the token or tokens that end a sequence, integers (not 4.0);
                None for no stop token.
            seed: the seed of a random sampler.
            num_sequences: N, the number of sequences per prompt. They only differ if
                the sampler is random.

        Returns:
            int32 (B, max_length), or (B, N, max_length) for N above 1: the tokens after
            the prompts, and padding after a stop token; without a `pad_token_id`, the
            first of the stop tokens instead. The model may also generate padding before
            any stop token; padding does not end a sequence. A `BeamSampler` that
            returns all beams adds a beam axis before the last axis, and also returns
            the scores.

        Raises:
            ValueError: for prompts that are not integers (B, ·), that have no token, or
                that have padding before a token; tokens outside the vocabulary; a
                `max_length` or `num_sequences` below 1; more tokens in total than
                learned positions; or an `attention` that cannot run step by step.
        """
        sampler = samplers.get(sampler)
        positive("max_length", max_length)
        count = positive("num_sequences", num_sequences)
        size = self.vocabulary_size
        stops = decoding.check_tokens("stop_token_ids", stop_token_ids, size)
        prompts = named_input("tokens", inputs)
        tokens, lengths = self._checked_prompts(prompts, max_length)
        batch, index = tokens.shape
        width = index + decoding.bucket(max_length)
        fill = self._fill(stops)
        prompt = np.full((batch, width), fill, "int32")
        for row, tokens_of_row, length in zip(prompt, tokens, lengths):
            row[index - length : index] = tokens_of_row[:length]
        outputs = self._write(
            partial(self._begin, count=count),
            {"tokens": tokens, "length": lengths},
            np.repeat(prompt, count, axis=0),
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

    def export_generation(
        self,
        path: Path,
        sampler: Any = "greedy",
        max_length: int = 64,
        stop_token_ids: Any = None,
    ) -> None:
        """Writes a SavedModel that does what `generate` does, with its loop.

        The file has one endpoint, `serve`, for any batch size and any length. It maps
        the prompts, int32 (B, P), to int32 (B, max_length), the array that `generate`
        returns. Shorter prompts have padding at the end: 0, or the `pad_token_id` of a
        `CausalLM`; with None, all prompts have P tokens. For how to run the file, where
        to export it, `path` and `sampler`, see `GeneratesTargets.export_generation`.

        When the file runs, it raises an error for a token outside the vocabulary, a
        prompt without a token, and padding before a token. A model with learned
        positions also raises an error if P and `max_length` together exceed them; here
        P includes the padding.

        Args:
            path: the folder to write to.
            sampler: the name of a sampler of `keras_attention.samplers`, or a sampler.
            max_length: the maximum number of tokens to generate, without the prompt.
            stop_token_ids: the token or tokens that end a sequence; None for no stop
                token.

        Raises:
            ImportError: TensorFlow is not installed.
            ValueError: as there, or `max_length` leaves no position for a prompt.
        """
        self._save_generation(path, sampler, max_length, stop_token_ids)

    def _generation_graph(
        self, sampler: Any, max_length: int, stop_token_ids: Any
    ) -> Callable[[Tensor], Tensor]:
        """Returns a function from prompts to tokens, for a graph of open sizes.

        It maps prompts (B, P), padded at the end, to integers (B, max_length).
        """
        positive("max_length", max_length)
        size = self.vocabulary_size
        stops = decoding.check_tokens("stop_token_ids", stop_token_ids, size)
        program = self._program(self._begin, sampler, stops)

        def write(tokens: Tensor) -> Tensor:
            # The first pass leaves out the last column, and a prompt may have only one.
            pad, fill = self.pad_token_id, self._fill(stops)
            is_token = ops.ones_like(tokens, dtype="bool")
            if pad is not None:
                is_token = ops.not_equal(tokens, pad)
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

    def _generation_rules(self, max_length: int) -> kernels.Rules:
        """Returns the rules of prompts in a graph, or raises a ValueError."""
        most = self.positions
        if most is not None and max_length >= most:
            raise ValueError(
                "`max_length` must be below the number of positions that the model "
                f"has learned. Received: max_length={max_length}, {most} positions"
            )
        longest = None if most is None else most - max_length
        size = self.vocabulary_size
        return kernels.Rules(size, longest, True, self.pad_token_id)

    def _begin(self, inputs: Any, length: int, count: int = 1) -> tuple[Any, Any, int]:
        both = self.begin(inputs, length)
        if count > 1:  # process each prompt once for all its sequences
            repeat = partial(ops.repeat, repeats=count, axis=0)
            both = keras.tree.map_structure(repeat, both)
        return (*both, ops.shape(inputs["tokens"])[1])

    def _fill(self, stops: tuple[int, ...]) -> int:
        """Returns the token after a stop token: padding, or else a stop token."""
        if self.pad_token_id is not None:
            return self.pad_token_id
        return stops[0] if stops else 0  # 0 where all tokens are generated

    def _checked_prompts(
        self, prompts: Any, max_length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the prompts (B, P), padded at the end, and their lengths (B,)."""
        pad = self.pad_token_id
        tokens = as_tokens("tokens", _rows(prompts, pad), self.vocabulary_size)
        if pad is None:  # the rows of a list give the lengths, those of an array P
            lengths = np.array([len(row) for row in prompts])
        else:
            lengths = (tokens != pad).sum(1)
        is_token = np.arange(tokens.shape[1]) < lengths[:, None]
        is_padded = pad is None or (is_token == (tokens != pad)).all()
        if not lengths.all() or not is_padded:
            behind = "" if pad is None else f", and padding, {pad}, behind them alone"
            raise ValueError(
                f"`tokens` must hold at least one token a row{behind}. "
                f"Received: rows of {lengths.tolist()} tokens in "
                f"{tokens.shape[1]} positions"
            )
        longest, most = int(lengths.max()), self.positions
        if most is not None and longest + max_length > most:
            raise ValueError(
                "The longest prompt and `max_length` together must not exceed the "
                f"positions that the model has learned. Received: a prompt of {longest}"
                f" tokens, max_length={max_length}, {most} positions"
            )
        return padded(tokens[:, :longest], most), lengths.astype("int32")


def in_graph(sampler: Any) -> samplers.Sampler:
    """Returns a sampler that can be in an exported graph, or raises a ValueError."""
    chosen = samplers.get(sampler)
    if not isinstance(chosen, samplers.Sampler):
        raise ValueError(
            "`sampler` must be one of `keras_attention.samplers`, by name or as an "
            f"object. Received: sampler={sampler!r}"
        )
    return samplers.one_sequence(chosen, of="input")


def named_input(name: str, inputs: Any) -> Any:
    """Returns the entry `name` of a dict, or raises a ValueError; else the inputs."""
    if not isinstance(inputs, dict):
        return inputs
    if name not in inputs:
        raise ValueError(f"`inputs` must hold {name!r}. Received: {list(inputs)}")
    return inputs[name]


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
