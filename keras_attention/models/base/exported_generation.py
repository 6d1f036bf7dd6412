"""Exports of `generate`: the loop over tokens as part of a SavedModel.

Shapes: B batch, S words of a source, P positions of the prompts, T generated tokens.
"""

from __future__ import annotations

import os
from typing import Any

import keras

from keras_attention import kernels, samplers

Path = str | os.PathLike[str]


class ExportsTargets:
    """Mixin that exports `generate` of models that begin with a start token."""

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


class ExportsContinuations:
    """Mixin that exports `generate` of models that continue prompts."""

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
        `CausalLM`; with None, all prompts have P tokens. Running the file needs
        `tensorflow`, but neither Keras nor this package:

        ```python
        import tensorflow as tf

        served = tf.saved_model.load("generation")  # keep it: it holds the weights
        ids = served.serve(tf.constant([[5, 6, 3], [8, 0, 0]]))
        ```

        When the file runs, it raises an error for a token outside the vocabulary, a
        prompt without a token, and padding before a token. A model with learned
        positions also raises an error if P and `max_length` together exceed them; here
        P includes the padding.

        The export runs on TensorFlow. The sampler "greedy" also runs on JAX, with
        TensorFlow installed. Otherwise, save the model, load it in a process with
        KERAS_BACKEND=tensorflow, and export it there.

        Args:
            path: the folder to write to.
            sampler: the name of a sampler of `keras_attention.samplers`, or a sampler.
                A random sampler restarts with the same random numbers in each process
                that loads the file.
            max_length: the maximum number of tokens to generate, without the prompt.
            stop_token_ids: the token or tokens that end a sequence; None for no stop
                token.

        Raises:
            ImportError: TensorFlow is not installed.
            ValueError: the backend is neither TensorFlow nor JAX; the sampler is from
                KerasHub, returns all beams, or is not "greedy" on JAX; `max_length` is
                below 1, or leaves no position for a prompt; or a token is outside the
                vocabulary.
        """
        model: Any = self
        continuation, sampler = model._continuation, in_graph(sampler)
        write = continuation.graph(sampler, max_length, stop_token_ids)
        _save(path, model, write, "tokens", sampler, continuation.rules(max_length))


def in_graph(sampler: Any) -> samplers.Sampler:
    """Returns a sampler that can be part of an exported graph.

    Raises:
        ValueError: if the sampler is not from this package, or returns all beams.
    """
    found = samplers.get(sampler)
    if not isinstance(found, samplers.Sampler):
        raise ValueError(
            "`sampler` must be one of `keras_attention.samplers`, by name or as an "
            f"object. Received: sampler={sampler!r}"
        )
    if getattr(found, "return_all_beams", False):
        raise ValueError(
            "`sampler` must return one sequence for each input. "
            f"Received: a {type(found).__name__} with return_all_beams=True"
        )
    return found


def _save(
    path: Path,
    model: keras.Model,
    write: Any,
    name: str,
    sampler: samplers.Sampler,
    rules: kernels.Rules,
) -> None:
    given = model.input[name]
    spec = keras.InputSpec(given.dtype, shape=given.shape, name=name)
    plain = type(sampler) is samplers.GreedySampler
    kernels.save_function(os.fspath(path), model, write, spec, rules, plain)
