"""A vocabulary of sub-words: SentencePiece, by way of KerasHub's tokenizer."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_attention.text.packages import require

PADDING, UNKNOWN, START, END = range(4)


class Subwords:
    """Pieces of words and their indices, for sequences in and sequences out.

    It has what `keras_attention.datasets.translation.vectorize` asks of a vocabulary,
    so that sub-words can take the place of words:

        index 0  padding        index 1  what is not known
        index 2  the start      index 3  the end of a sequence

    A text is put into Unicode's normal form NFKC, and each run of white space becomes
    one space, before it is split; with `lowercase` its case is folded, too. These
    rules are part of the vocabulary and go wherever it goes, also into the graph that
    `export_translator` writes. `encode` adds neither start nor end.

    It runs on the CPU, on every backend. `tokenizer` is the KerasHub layer under it,
    which can be mapped over a `tf.data.Dataset` of strings.

    Args:
        proto: a serialized SentencePiece model whose special pieces have the indices
            above, as `from_sentences` makes it.

    Raises:
        ImportError: a package of the extra `text` is missing.
        ValueError: `proto` is no SentencePiece model, or its special pieces have other
            indices.

    Example:

    ```python
    subwords = Subwords.from_sentences(["a dog runs", "a cat runs"], size=19)
    ids = subwords.encode("a cat runs")
    subwords.decode([*ids, 3, 0, 0])  # "a cat runs"
    subwords.save("english.spm")
    ```

    Reference:
        Kudo & Richardson, "SentencePiece: a simple and language independent subword
        tokenizer and detokenizer for neural text processing" (2018); the pieces are
        chosen by the unigram model of Kudo, "Subword regularization" (2018).
    """

    def __init__(self, proto: bytes) -> None:
        _check_proto(proto, "`proto`")
        self.proto = bytes(proto)
        hub = require("keras_hub")
        self.tokenizer = hub.tokenizers.SentencePieceTokenizer(self.proto)

    @classmethod
    def from_sentences(
        cls, sentences: Iterable[str], size: int = 4000, lowercase: bool = False
    ) -> Subwords:
        """Learns the pieces from some sentences.

        Args:
            sentences: texts, as of one side of the training pairs. Those of more than
                4,192 bytes are passed over.
            size: `len` of the vocabulary, its four special indices included.
            lowercase: whether case is folded, so that "Dog" and "dog" are one.

        Returns:
            A `Subwords`.

        Raises:
            ImportError: a package of the extra `text` is missing.
            ValueError: `sentences` is one string, holds what is no string, or has no
                text in it; or `size` is less than their characters need, or more than
                they give.
        """
        sentences = _texts("sentences", sentences)
        if not any(text.strip() for text in sentences):
            raise ValueError(
                "`sentences` must hold a text that is not empty. "
                f"Received: {len(sentences)} without any"
            )
        if isinstance(size, bool) or not isinstance(size, int) or size < END + 2:
            raise ValueError(
                f"`size` must be a whole number of at least {END + 2}. "
                f"Received: size={size!r}"
            )
        hub, tf = require("keras_hub"), require("tensorflow")
        require("sentencepiece").set_min_log_level(2)  # else 100 lines on its progress
        try:
            proto = hub.tokenizers.compute_sentence_piece_proto(
                tf.data.Dataset.from_tensor_slices(sentences), size, lowercase=lowercase
            )
        except RuntimeError as error:
            raise ValueError(
                f"`size` must fit the sentences: {_reason(str(error))}. "
                f"Received: size={size}"
            ) from error
        return cls(proto)

    @property
    def tokens(self) -> tuple[str, ...]:
        """All pieces by index, the special ones included; "▁" is a space."""
        return tuple(self.tokenizer.get_vocabulary())

    @property
    def start_token_id(self) -> int:
        """The index that begins a target sequence: 2."""
        return START

    @property
    def end_token_id(self) -> int:
        """The index that ends a sequence: 3."""
        return END

    def __len__(self) -> int:
        return int(self.tokenizer.vocabulary_size())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subwords) and self.proto == other.proto

    def __hash__(self) -> int:
        return hash(self.proto)

    def __repr__(self) -> str:
        return f"<Subwords of {len(self)} pieces>"

    def encode(self, text: str) -> list[int]:
        """The index of each piece of a text; 1 for what is not known.

        Raises:
            ValueError: `text` is no string.
        """
        if not isinstance(text, str):
            raise ValueError(f"`text` must be a string. Received: text={text!r}")
        return self.encode_all([text])[0]

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The indices of the pieces of each text, all texts at once.

        Raises:
            ValueError: `texts` is one string, or holds what is no string.
        """
        texts = _texts("texts", texts)
        if not texts:
            return []
        rows = self.tokenizer.tokenize(texts)
        return rows.to_list() if hasattr(rows, "to_list") else rows  # or ragged

    def decode(self, indices: Iterable[int]) -> str:
        """The text of a sequence, up to its end token if it has one.

        Padding and start tokens are left out, and what is not known becomes " ⁇ ".

        Args:
            indices: whole numbers, as a list or an array of shape (T,).

        Raises:
            ValueError: an index below 0 or not below `len(self)`.
        """
        found, size = [], len(self)
        for index in map(int, indices):
            if not 0 <= index < size:
                raise ValueError(
                    f"`indices` must be at least 0 and below {size}. Received: {index}"
                )
            if index == END:
                break
            if index not in (PADDING, START):
                found.append(index)
        if not found:
            return ""
        text = self.tokenizer.detokenize([found])[0]
        return text if isinstance(text, str) else text.numpy().decode("utf-8")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the SentencePiece model, which other programs read as well."""
        Path(path).write_bytes(self.proto)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Subwords:
        """Reads what `save` wrote.

        Raises:
            FileNotFoundError: there is no such file.
            ImportError: a package of the extra `text` is missing.
            ValueError: the file is no SentencePiece model, or its special pieces have
                other indices; the message names the file.
        """
        proto = Path(path).read_bytes()
        _check_proto(proto, str(path))
        return cls(proto)


def _texts(name: str, texts: Any) -> list[str]:
    if isinstance(texts, (str, bytes)):
        raise ValueError(
            f"`{name}` must be several texts, not one. Received: {name}={texts!r}"
        )
    found = list(texts)
    for i, text in enumerate(found):
        if not isinstance(text, str):
            raise ValueError(
                f"`{name}` must be strings. Received: {name}[{i}]={text!r}"
            )
    return found


def _check_proto(proto: Any, what: str) -> None:
    """Raises a ValueError unless the bytes are a model with our special indices."""
    if not isinstance(proto, bytes):
        raise ValueError(
            f"{what} must be bytes, a serialized SentencePiece model. "
            f"Received: {type(proto).__name__}"
        )
    pieces = require("sentencepiece")
    try:
        model = pieces.SentencePieceProcessor(model_proto=proto)
    except RuntimeError as error:
        raise _no_model(proto, what) from error
    if not proto or not model.vocab_size():
        raise _no_model(proto, what)
    special = (model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id())
    if special != (PADDING, UNKNOWN, START, END):
        raise ValueError(
            f"{what} must have padding, unknown, start and end at the indices 0, 1, 2 "
            f"and 3. Received: {special}"
        )


def _no_model(proto: bytes, what: str) -> ValueError:
    return ValueError(
        f"{what} must be a serialized SentencePiece model. "
        f"Received: {len(proto)} bytes that begin with {proto[:16]!r}"
    )


def _reason(message: str) -> str:
    """What SentencePiece says of a size that does not fit, in our words."""
    most = re.search(r"too high .*<= (\d+)", message)
    least = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if most:
        return f"they give {most[1]} pieces at most"
    if least:
        return f"their characters alone need {least[1]}"
    return message
