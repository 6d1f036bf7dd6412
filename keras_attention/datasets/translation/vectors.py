"""Turns text pairs into the arrays of a sequence-to-sequence model."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from keras_attention.datasets.ragged import padded
from keras_attention.text.vocabulary import END, PADDING, START, Vocabulary

_REPORT_EVERY = 1000  # pairs


class Encoder(Protocol):
    """The vocabulary interface that `vectorize` requires.

    The optional attributes `start_token_id` and `end_token_id` default to 2 and 3.
    Padding is always 0.
    """

    def encode(self, text: str, /) -> Sequence[int]:
        """Returns the token indices of a text, without start and end tokens."""


class Vectors(NamedTuple):
    """The output of `vectorize`.

    Attributes:
        inputs: `"source"`, (N, S) int32, and `"target"`, (N, T) int32, which begins
            with the start token.
        labels: (N, T) int32: the target shifted by one step, with the end token.
    """

    inputs: dict[str, np.ndarray]
    labels: np.ndarray

    @property
    def sample_weight(self) -> np.ndarray:
        """(N, T) float32: 1 for a label, 0 for padding."""
        return (self.labels != PADDING).astype(np.float32)


def vectorize(
    pairs: Iterable[Sequence[str]],
    source_vocabulary: Encoder,
    target_vocabulary: Encoder,
    reverse_source: bool = False,
    double_source: bool = False,
    source_length: int | None = None,
    target_length: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    extra_ids: int = 0,
) -> Vectors:
    """Turns N pairs of texts into arrays of indices, padded with 0 at the end.

    For a target "a b" with the indices 7 and 9, `inputs["target"]` is 2, 7, 9 and
    `labels` is 7, 9, 3. The source has neither start nor end token. Models without
    attention may benefit from a reversed source (Sutskever et al., 2014, *Sequence to
    Sequence Learning with Neural Networks*, https://arxiv.org/abs/1409.3215, section
    3.3) or a doubled source (Zaremba and Sutskever, 2014, *Learning to Execute*,
    https://arxiv.org/abs/1410.4615, section 4). With both options, the reversed source
    is repeated.

    Args:
        pairs: Pairs of source and target text. Further tuple items are ignored.
        source_vocabulary: An object with `encode(text)` that returns positive integers.
        target_vocabulary: Such an object for the target.
        reverse_source: Whether to reverse the source tokens.
        double_source: Whether to repeat the source tokens.
        source_length: S. Defaults to the length of the longest source.
        target_length: T. Defaults to the length of the longest target plus one.
        progress: Called regularly and at the end with the number of finished pairs and
            the total.
        extra_ids: The `extra_ids` of a `Seq2Seq(copy=…)`: the number of ids for unknown
            words of a source, there and in its target; see `Vocabulary.extended`.

    Raises:
        ValueError: `pairs` is empty, a source has no tokens, an index is not a positive
            integer, a sequence exceeds its given length, or there are `extra_ids`, but
            not one `Vocabulary` for both sides.

    Example:
        ```python
        pairs = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
        source = Vocabulary.from_sentences(pair[0] for pair in pairs)
        target = Vocabulary.from_sentences(pair[1] for pair in pairs)
        inputs, labels = vectorize(pairs, source, target)
        inputs["target"].shape  # (2, 3)
        ```
    """
    pairs = list(pairs)
    if not pairs:
        raise ValueError("`pairs` must hold at least one. Received: pairs=[]")
    vocabularies: Any = source_vocabulary, target_vocabulary
    shared = shared_vocabulary(*vocabularies) if extra_ids else None
    start = getattr(target_vocabulary, "start_token_id", START)
    end = getattr(target_vocabulary, "end_token_id", END)
    sources, targets = [], []
    for i, (source, target, *_) in enumerate(pairs):
        read, write = vocabularies
        if shared is not None:
            read = write = shared.extended(source, extra_ids)
        ids = _encode(read, source, f"The source of pairs[{i}]")
        if not len(ids):
            raise ValueError(
                f"The source of pairs[{i}] has no tokens. Received: {source!r}"
            )
        ids = ids[::-1] if reverse_source else ids
        sources.append(ids * 2 if double_source else ids)
        ids = _encode(write, target, f"The target of pairs[{i}]")
        targets.append([*ids, end])
        if progress is not None and (
            (i + 1) % _REPORT_EVERY == 0 or i + 1 == len(pairs)
        ):
            progress(i + 1, len(pairs))
    source_ids = _pad(sources, "source_length", source_length)  # (N, S)
    labels = _pad(targets, "target_length", target_length)  # (N, T)
    target_ids = _pad(
        [[start, *ids[:-1]] for ids in targets], "target_length", labels.shape[1]
    )  # (N, T)
    return Vectors({"source": source_ids, "target": target_ids}, labels)


def shared_vocabulary(source: Any, target: Any) -> Vocabulary:
    """Returns the vocabulary of both sides, which copying needs, or raises an error."""
    if not isinstance(source, Vocabulary) or source != target:
        raise ValueError(
            "To copy words, `source_vocabulary` and `target_vocabulary` must be the "
            f"same `Vocabulary`. Received: source_vocabulary={source!r}, "
            f"target_vocabulary={target!r}"
        )
    return source


def _encode(vocabulary: Encoder, text: str, what: str) -> list[int]:
    ids = [int(index) for index in vocabulary.encode(text)]
    if any(index <= PADDING for index in ids):
        raise ValueError(
            f"{what} must be encoded as whole numbers above 0, for 0 is padding. "
            f"Received: {ids} for {text!r}"
        )
    return ids


def _pad(rows: Sequence[Sequence[int]], name: str, length: int | None) -> np.ndarray:
    """Pads N rows of at most `length` indices to (N, L) int32."""
    longest = max(range(len(rows)), key=lambda i: len(rows[i]))
    if length is None:
        length = len(rows[longest])
    if length < len(rows[longest]):
        raise ValueError(
            f"`{name}` must be at least {len(rows[longest])}, which pairs[{longest}] "
            f"needs. Received: {name}={length}"
        )
    return padded(rows, length)
