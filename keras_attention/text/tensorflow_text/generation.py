"""Translation and continuation of strings, in Python and as a TensorFlow SavedModel.

Shapes: B batch, P pieces of the texts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_attention import samplers
from keras_attention.kernels import Rules
from keras_attention.layers.base.arguments import positive
from keras_attention.models.base.generation import GeneratesTargets, in_graph
from keras_attention.text.tensorflow_text.subwords import Subwords, check_texts, require
from keras_attention.text.vocabulary import PADDING, START

Tensor = Any

BUCKET = 16  # sources are padded to a positive multiple of this length


def translate(
    model: Any,
    source_vocabulary: Any,
    target_vocabulary: Any,
    texts: Sequence[str],
    sampler: Any = "greedy",
    max_length: int = 64,
    seed: int | None = None,
) -> list[str]:
    """Translates texts in one batch, on any backend.

    If the target vocabulary is a `Subwords`, samplers of this package do not write the
    unknown piece.

    Args:
        model: a `keras_attention.models.Seq2Seq` or `Transformer`, or another model
            with the same `generate` method.
        source_vocabulary: a `Subwords`, or a vocabulary of words or characters.
        target_vocabulary: such a vocabulary for the target.
        texts: B strings.
        sampler: see `generate` of the model.
        max_length: the maximum number of target tokens.
        seed: the seed of a random sampler.

    Returns:
        B strings. A text without tokens gives "".

    Raises:
        ValueError: `texts` is a single string, the vocabularies do not fit the model,
            or the sampler returns all beams. `generate` may also raise errors.

    Example:

    ```python
    translate(model, english, german, ["A dog runs."], sampler="beam")
    ```
    """
    texts = check_texts("texts", texts)
    sampler = _known(samplers.one_sequence(sampler), target_vocabulary)
    _check_sizes(model, source_vocabulary, target_vocabulary)
    rows = [source_vocabulary.encode(text) for text in texts]
    nonempty = [row for row in rows if len(row)]
    if not nonempty:
        return [""] * len(rows)
    source = keras.utils.pad_sequences(nonempty, padding="post")  # int32 (B, P)
    tokens = model.generate(
        {"source": source},
        max_length=max_length,
        sampler=sampler,
        start_token_id=target_vocabulary.start_token_id,
        stop_token_ids=target_vocabulary.end_token_id,
        seed=seed,
    )
    written = iter(tokens)
    return [target_vocabulary.decode(next(written)) if len(r) else "" for r in rows]


def export_translator(
    model: Any,
    source_vocabulary: Subwords,
    target_vocabulary: Subwords,
    path: str | os.PathLike[str],
    sampler: Any = "greedy",
    max_length: int = 64,
) -> None:
    """Writes a TensorFlow SavedModel that maps strings to strings.

    The graph contains normalization, tokenization, model, sampler and detokenization.
    It maps tf.string (B,) to tf.string (B,), for any number of texts of any length. A
    text without tokens gives "". The unknown piece is not written. The results equal
    those of `translate`, except if two segmentations are equally likely and the
    SentencePiece of TensorFlow Text picks the other one (1 of the 29,000 German
    sentences of Multi30k, at 6,000 pieces).

    Running the graph requires `tensorflow` and `tensorflow_text`, but neither KerasHub
    nor this package:

    ```python
    import tensorflow as tf
    import tensorflow_text  # registers its operations

    translator = tf.saved_model.load("translator")
    translator.serve(tf.constant(["A dog runs."])).numpy()[0].decode()
    ```

    The export requires the TensorFlow backend. To export a model trained on JAX or
    torch, save it as `.keras`, then load and export it in a process with
    KERAS_BACKEND=tensorflow.

    Args:
        model: a `keras_attention.models.Seq2Seq` or `Transformer`, or another model
            with the `begin` and `next` methods of `Seq2Seq`.
        source_vocabulary: a `Subwords`.
        target_vocabulary: a `Subwords` for the target.
        path: the folder to write to.
        sampler: the name of a sampler of `keras_attention.samplers`, or a sampler. A
            random sampler restarts with the same random numbers in each process that
            loads the file.
        max_length: the maximum number of target tokens.

    Raises:
        ImportError: a package of the extra `text` is missing.
        ValueError: the backend is not TensorFlow, a vocabulary is not a `Subwords` or
            does not fit the model, the sampler is from KerasHub or returns all beams,
            or `max_length` is below 1.
    """
    _check_exporting(
        "export_translator",
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
    )
    _check_sizes(model, source_vocabulary, target_vocabulary)
    positive("max_length", max_length)
    tf = require("tensorflow")
    from keras_attention.kernels.saved_model.tensorflow import checked

    pieces = _tf_tokenizer(source_vocabulary, "source")
    words = _tf_tokenizer(target_vocabulary, "target")
    sampler = _known(in_graph(samplers.one_sequence(sampler)), target_vocabulary)
    start, end = target_vocabulary.start_token_id, target_vocabulary.end_token_id
    if not isinstance(model, GeneratesTargets):
        model = _Other(model)
    write = model._generation_graph(sampler, max_length, start, end)
    most = model._generation_rules(max_length).positions

    def serve(texts: Tensor) -> Tensor:
        rows = pieces.tokenize(texts)  # ragged (B, ·)
        source = checked(rows.to_tensor(PADDING), Rules(positions=most))  # (B, P)
        width = tf.shape(source)[1]
        padding = tf.where(width > 0, -width % BUCKET, BUCKET)
        if most is not None:
            padding = tf.clip_by_value(padding, 0, tf.maximum(most - width, 0))
        source = tf.pad(source, ((0, 0), (0, padding)), constant_values=PADDING)
        written = words.detokenize(write(source))  # (B,)
        return tf.where(rows.row_lengths() > 0, written, "")

    _write_archive(path, serve, pieces, words)


class _Other(GeneratesTargets):
    """Another model with the methods `begin` and `next` of `Seq2Seq`."""

    next: Any = None

    def __init__(self, model: Any) -> None:
        self.begin, self.next = model.begin, model.next
        self.source_vocabulary_size = model.source_vocabulary_size
        self.target_vocabulary_size = model.target_vocabulary_size


def complete(
    model: Any,
    vocabulary: Any,
    texts: Sequence[str],
    sampler: Any = "greedy",
    max_length: int = 64,
    seed: int | None = None,
) -> list[str]:
    """Continues texts in one batch, on any backend.

    If the vocabulary is a `Subwords`, samplers of this package do not write the unknown
    piece.

    Args:
        model: a `keras_attention.models.CausalLM` or `WordRNN`.
        vocabulary: a `Subwords`, or a vocabulary of words or characters.
        texts: B strings.
        sampler: see `generate` of the model.
        max_length: the maximum number of tokens to add.
        seed: the seed of a random sampler.

    Returns:
        B strings: each text, as the vocabulary normalizes it, with its continuation up
        to the end token. A text without tokens gives "".

    Raises:
        ValueError: `texts` is a single string, the vocabulary does not fit the model,
            or the sampler returns all beams. `generate` may also raise errors.

    Example:

    ```python
    complete(model, subwords, ["A dog"], sampler="top_p", max_length=20)
    ```
    """
    texts = check_texts("texts", texts)
    sampler = _known(samplers.one_sequence(sampler), vocabulary)
    _check_size(model, vocabulary)
    rows = [list(vocabulary.encode(text)) for text in texts]
    prompts = [row for row in rows if row]
    if not prompts:
        return [""] * len(rows)
    continuations = model.generate(
        [np.asarray(row, "int32") for row in prompts],
        max_length=max_length,
        sampler=sampler,
        stop_token_ids=vocabulary.end_token_id,
        seed=seed,
    )
    written = iter(continuations)
    return [vocabulary.decode([*row, *next(written)]) if row else "" for row in rows]


def export_completer(
    model: Any,
    vocabulary: Subwords,
    path: str | os.PathLike[str],
    sampler: Any = "greedy",
    max_length: int = 64,
) -> None:
    """Writes a TensorFlow SavedModel that continues strings.

    The endpoint `serve` maps tf.string (B,) to tf.string (B,), for any number of texts
    of any length that the model accepts. The results equal those of `complete`, with
    the exception that `export_translator` describes. Running the file needs
    `tensorflow` and `tensorflow_text`; see `export_translator`.

    Args:
        model: a `keras_attention.models.CausalLM` or `WordRNN`.
        vocabulary: a `Subwords`.
        path: the folder to write to.
        sampler: the name of a sampler of `keras_attention.samplers`, or a sampler.
        max_length: the maximum number of tokens to add.

    Raises:
        ImportError: a package of the extra `text` is missing.
        ValueError: the backend is not TensorFlow, `vocabulary` is not a `Subwords` or
            does not fit the model, the sampler is from KerasHub or returns all beams,
            or `max_length` is below 1 or leaves no position for a text.
    """
    _check_exporting("export_completer", vocabulary=vocabulary)
    _check_size(model, vocabulary)
    tf = require("tensorflow")
    from keras_attention.kernels.saved_model.tensorflow import checked

    chosen = _known(in_graph(samplers.one_sequence(sampler)), vocabulary)
    write = model._generation_graph(chosen, max_length, vocabulary.end_token_id)
    rules = Rules(positions=model._generation_rules(max_length).positions)
    pieces = _tf_tokenizer(vocabulary, "text")

    def serve(texts: Tensor) -> Tensor:
        rows = pieces.tokenize(texts)  # ragged (B, ·)
        tokens = rows.to_tensor(PADDING)  # (B, P)
        tokens = checked(tokens, rules)
        tokens = tf.pad(tokens, ((0, 0), (0, 1)), constant_values=PADDING)
        is_empty = rows.row_lengths() == 0  # (B,)
        first = tf.where(is_empty, START, tokens[:, 0])[:, None]
        tokens = tf.concat([first, tokens[:, 1:]], axis=1)
        # Padding and the end are no text.
        written = pieces.detokenize(tf.concat([tokens, write(tokens)], axis=1))
        return tf.where(is_empty, "", written)

    _write_archive(path, serve, pieces)


def _write_archive(path: Any, serve: Callable, *tokenizers: Any) -> None:
    """Writes a SavedModel with the endpoint `serve`, from strings to strings."""
    tf, archive = require("tensorflow"), keras.export.ExportArchive()
    for tokenizer in tokenizers:
        archive.track(tokenizer)
    texts = tf.TensorSpec((None,), tf.string, name="texts")
    archive.add_endpoint("serve", serve, [texts])
    archive.write_out(os.fspath(path), verbose=False)


def _tf_tokenizer(vocabulary: Subwords, side: str) -> Any:
    """Creates a TensorFlow Text tokenizer with a unique name.

    Tokenizers with equal or no names are merged when a SavedModel is loaded:
    https://github.com/tensorflow/text/issues/1304.
    """
    name = f"{side}_{hashlib.sha256(vocabulary.proto).hexdigest()[:16]}"
    return require("tensorflow_text").SentencepieceTokenizer(
        vocabulary.proto, name=name
    )


def _check_exporting(function: str, **vocabularies: Any) -> None:
    """Raises a ValueError unless the backend and the vocabularies can be exported.

    `function` names the exporting function; `vocabularies` are by argument.
    """
    if keras.config.backend() != "tensorflow":
        raise ValueError(
            f"`{function}` must run on the TensorFlow backend, whose graph it "
            "writes. Save the model with `model.save('model.keras')`; in a process "
            "with KERAS_BACKEND=tensorflow, load it with `keras.saving.load_model` and "
            f"export it there. Received: the backend {keras.config.backend()!r}"
        )
    for name, vocabulary in vocabularies.items():
        if not isinstance(vocabulary, Subwords):
            raise ValueError(
                f"`{name}` must be a `keras_attention.text.Subwords`, which TensorFlow "
                f"Text can run in a graph. Received: {name}={vocabulary!r}"
            )


def _known(sampler: Any, vocabulary: Any) -> Any:
    """Returns a sampler that does not write the unknown piece of a `Subwords`."""
    is_ours = isinstance(sampler, samplers.Sampler)
    if not is_ours or not isinstance(vocabulary, Subwords):
        return sampler
    return samplers.ExcludingSampler(sampler, [vocabulary.unknown_token_id])


def _check_sizes(model: Any, source_vocabulary: Any, target_vocabulary: Any) -> None:
    """Raises a ValueError if the sizes of the vocabularies do not fit the model."""
    if len(source_vocabulary) > model.source_vocabulary_size:
        raise ValueError(
            "`source_vocabulary` must not have more tokens than the model. Received: "
            f"{len(source_vocabulary)}, and "
            f"source_vocabulary_size={model.source_vocabulary_size}"
        )
    if len(target_vocabulary) < model.target_vocabulary_size:
        raise ValueError(
            "`target_vocabulary` must have each token that the model may write. "
            f"Received: {len(target_vocabulary)}, and "
            f"target_vocabulary_size={model.target_vocabulary_size}"
        )


def _check_size(model: Any, vocabulary: Any) -> None:
    """Raises a ValueError unless the vocabulary has the size of the model's."""
    if len(vocabulary) != model.vocabulary_size:
        raise ValueError(
            "`vocabulary` must have as many tokens as the model. Received: "
            f"{len(vocabulary)}, and vocabulary_size={model.vocabulary_size}"
        )
