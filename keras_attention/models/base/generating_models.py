"""The methods of models that generate tokens, and their export as a SavedModel.

Shapes: B batch, S words of a source, P positions of the prompts, T generated tokens, V
vocabulary, N sequences per prompt.
"""

from __future__ import annotations

import abc
import os
from typing import Any

import keras
import numpy as np

from keras_attention import kernels, samplers
from keras_attention.models.base.generation import named_input

Path = str | os.PathLike[str]
Tensor = Any


class Generates:
    """Mixin of models with KerasHub's protocol; see `keras_attention.samplers`."""

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


class GeneratesTargets(Generates):
    """Mixin of models that generate a sequence from a start token."""

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
                "image" or "features"; or only its array. Sources are integers.
            max_length: the maximum number of tokens to generate.
            sampler: "greedy", "beam", "random", "top_k", "top_p", or a sampler of
                `keras_attention.samplers` or of KerasHub. With a `Transformer`, a beam
                search cannot use a coverage penalty, because each layer has separate
                heads.
            start_token_id: the token before the first generated token.
            stop_token_ids: the token or tokens that end a target; None for no stop
                token.
            seed: the seed of a random sampler.

        Returns:
            int32 (B, max_length), without the start token, 0 after a stop token.

        Raises:
            ValueError: for sources that are not integers (B, S), or images of another
                shape; tokens outside their vocabulary; a `max_length` below 1; a source
                or target longer than the learned positions; or an `attention` that
                cannot run step by step.
        """
        model: Any = self
        generator = model._generator
        source = self._source(named_input(generator.input, inputs), max_length)
        return generator(
            {generator.input: source},
            max_length,
            samplers.get(sampler),
            start_token_id,
            stop_token_ids,
            seed,
        )

    def _source(self, source: Any, max_length: int) -> Any:
        """Returns the input of `generate`, checked by the rules of the model."""
        return source

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
        model: Any = self
        generator, sampler = model._generator, in_graph(sampler)
        write = generator.graph(sampler, max_length, start_token_id, stop_token_ids)
        name = generator.input
        _save(path, model, write, name, sampler, generator.rules(max_length))


class ContinuesPrompts(Generates):
    """Mixin of models that continue prompts."""

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
            stop_token_ids: the token or tokens that end a sequence; None for no stop
                token.
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
        model: Any = self
        return model._continuation(
            named_input("tokens", inputs),
            max_length,
            samplers.get(sampler),
            stop_token_ids,
            seed,
            num_sequences,
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
        model: Any = self
        continuation, sampler = model._continuation, in_graph(sampler)
        write = continuation.graph(sampler, max_length, stop_token_ids)
        _save(path, model, write, "tokens", sampler, continuation.rules(max_length))


def in_graph(sampler: Any) -> samplers.Sampler:
    """Returns a sampler that can be in an exported graph, or raises a ValueError."""
    chosen = samplers.get(sampler)
    if not isinstance(chosen, samplers.Sampler):
        raise ValueError(
            "`sampler` must be one of `keras_attention.samplers`, by name or as an "
            f"object. Received: sampler={sampler!r}"
        )
    return samplers.one_sequence(chosen, of="input")


def _save(
    path: Path,
    model: keras.Model,
    write: Any,
    name: str,
    sampler: samplers.Sampler,
    rules: kernels.Rules,
) -> None:
    symbol = model.input[name]
    spec = keras.InputSpec(symbol.dtype, shape=symbol.shape, name=name)
    plain = type(sampler) is samplers.GreedySampler
    kernels.save_function(os.fspath(path), model, write, spec, rules, plain)
