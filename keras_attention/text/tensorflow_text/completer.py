"""String-to-string continuation in Python and as a TensorFlow SavedModel.

Shapes: B batch, P pieces of the texts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attention import samplers
from keras_attention.kernels import Rules
from keras_attention.models.base.generation import in_graph
from keras_attention.text.tensorflow_text.packages import require
from keras_attention.text.tensorflow_text.subwords import Subwords
from keras_attention.text.tensorflow_text.translator import (
    check_exporting,
    known,
    tf_tokenizer,
    write_archive,
)
from keras_attention.text.vocabulary import PADDING, START

Tensor = Any


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
    if isinstance(texts, str):
        raise ValueError(
            f"`texts` must be several texts, not one. Received: texts={texts!r}"
        )
    sampler = known(samplers.one_sequence(sampler), vocabulary)
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
    check_exporting("export_completer", vocabulary=vocabulary)
    _check_size(model, vocabulary)
    tf = require("tensorflow")
    from keras_attention.kernels.saved_model.checks import checked

    chosen = known(in_graph(samplers.one_sequence(sampler)), vocabulary)
    write = model._generation_graph(chosen, max_length, vocabulary.end_token_id)
    rules = Rules(positions=model._generation_rules(max_length).positions)
    pieces = tf_tokenizer(vocabulary, "text")

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

    write_archive(path, serve, pieces)


def _check_size(model: Any, vocabulary: Any) -> None:
    """Raises a ValueError unless the vocabulary has the size of the model's."""
    if len(vocabulary) != model.vocabulary_size:
        raise ValueError(
            "`vocabulary` must have as many tokens as the model. Received: "
            f"{len(vocabulary)}, and vocabulary_size={model.vocabulary_size}"
        )
