"""A SentencePiece subword vocabulary, based on KerasHub's tokenizer."""

from __future__ import annotations

import importlib
import io
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_attention.text.vocabulary import (
    END,
    PADDING,
    START,
    UNKNOWN,
    SpecialTokens,
    written,
)


def require(name: str) -> Any:
    """Imports a package of the extra `text`; an error names the extra."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"`keras_attention.text` needs the module `{name}`, which comes with the "
            'extra `text`: python -m pip install "keras-attention-family[text]". '
            f"Received: {error}",
            name=name,
        ) from error


class Subwords(SpecialTokens):
    """A subword vocabulary for input and output sequences.

    It implements the vocabulary interface of
    `keras_attention.datasets.translation.vectorize`, so subwords can replace words:

        index 0  padding        index 1  unknown
        index 2  the start      index 3  the end of a sequence

    Before splitting, a text is normalized to Unicode form NFKC, and each run of white
    space becomes one space. With `lowercase`, its case is folded. These rules are part
    of the vocabulary and of the graph that `export_translator` writes. `encode` does
    not add the start and the end.

    `Subwords` runs on the CPU, with every backend. `tokenizer` is the underlying
    KerasHub layer, which can be mapped over a `tf.data.Dataset` of strings.

    Args:
        proto: a serialized SentencePiece model with the special indices above, such as
            one that `from_sentences` created.

    Raises:
        ImportError: a package of the extra `text` is missing.
        ValueError: `proto` is not a SentencePiece model, or its special pieces have
            other indices.

    Example:

    ```python
    subwords = Subwords.from_sentences(["a dog runs", "a cat runs"], size=19)
    ids = subwords.encode("a cat runs")
    subwords.decode([*ids, 3, 0, 0])  # "a cat runs"
    subwords.save("english.spm")
    ```

    Reference:
        Kudo & Richardson, "SentencePiece: a simple and language independent subword
        tokenizer and detokenizer for neural text processing" (2018); the unigram model
        that selects the pieces is from Kudo, "Subword regularization" (2018).
    """

    def __init__(self, proto: bytes) -> None:
        _check_proto(proto, "`proto`")
        self.proto = bytes(proto)
        hub = require("keras_hub")
        self.tokenizer = hub.tokenizers.SentencePieceTokenizer(self.proto)

    @classmethod
    def from_sentences(
        cls,
        sentences: Iterable[str],
        size: int = 4000,
        lowercase: bool = False,
        byte_fallback: bool = False,
    ) -> Subwords:
        """Learns the pieces from sentences.

        Every character of the sentences is in a piece, so these sentences have no
        unknown pieces. Other texts may have characters without a piece, which are
        unknown. With `byte_fallback`, no text has unknown pieces.

        Args:
            sentences: texts, for example one side of the training pairs. Texts of more
                than 4,192 bytes are skipped.
            size: `len` of the vocabulary, including its four special indices.
            lowercase: whether to fold case, so that "Dog" and "dog" are equal.
            byte_fallback: whether the vocabulary contains 256 pieces for bytes. Rare
                characters (the last 0.05 % of the text) and new ones then become the
                bytes of their UTF-8 form. Useful for scripts with many characters.

        Returns:
            A `Subwords`.

        Raises:
            ImportError: a package of the extra `text` is missing.
            ValueError: `sentences` is a single string, contains a non-string, or has no
                text; or `size` is too small for the characters or too large for the
                sentences.
        """
        sentences = check_texts("sentences", sentences)
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
        require("keras_hub")  # before the training, which takes time
        pieces = require("sentencepiece")
        pieces.set_min_log_level(2)  # no progress output
        proto = io.BytesIO()
        try:
            pieces.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences),
                model_writer=proto,
                vocab_size=size,
                normalization_rule_name="nmt_nfkc_cf" if lowercase else "nmt_nfkc",
                character_coverage=0.9995 if byte_fallback else 1.0,
                byte_fallback=byte_fallback,
                pad_id=PADDING,
                unk_id=UNKNOWN,
                bos_id=START,
                eos_id=END,
            )
        except RuntimeError as error:
            raise ValueError(
                f"`size` must fit the sentences: {_reason(str(error))}. "
                f"Received: size={size}"
            ) from error
        return cls(proto.getvalue())

    @property
    def tokens(self) -> tuple[str, ...]:
        """All pieces by index, including the special ones; "▁" is a space."""
        return tuple(self.tokenizer.get_vocabulary())

    @property
    def unknown_token_id(self) -> int:
        """The index of a character without a piece: 1."""
        return UNKNOWN

    def __len__(self) -> int:
        return int(self.tokenizer.vocabulary_size())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subwords) and self.proto == other.proto

    def __hash__(self) -> int:
        return hash(self.proto)

    def __repr__(self) -> str:
        return f"<Subwords of {len(self)} pieces>"

    def encode(self, text: str) -> list[int]:
        """Returns the index of each piece of a text; 1 for unknown pieces.

        Raises:
            ValueError: `text` is not a string.
        """
        if not isinstance(text, str):
            raise ValueError(f"`text` must be a string. Received: text={text!r}")
        return self.encode_all([text])[0]

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Returns the piece indices of each text; splits all texts in one call.

        Raises:
            ValueError: `texts` is a single string or contains a non-string.
        """
        texts = check_texts("texts", texts)
        if not texts:
            return []
        rows = self.tokenizer.tokenize(texts)
        return rows.to_list() if hasattr(rows, "to_list") else rows  # ragged

    def decode(self, indices: Iterable[int]) -> str:
        """Converts indices to text, up to the end token if there is one.

        Padding and start tokens are left out, and unknown pieces become " ⁇ ".

        Args:
            indices: integers, as a list or an array of shape (T,).

        Raises:
            ValueError: an index below 0 or not below `len(self)`.
        """
        pieces = written(indices, len(self))
        if not pieces:
            return ""
        text = self.tokenizer.detokenize([pieces])[0]
        return text if isinstance(text, str) else text.numpy().decode("utf-8")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the SentencePiece model, which other programs can also read."""
        Path(path).write_bytes(self.proto)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Subwords:
        """Reads a file written by `save`.

        Raises:
            FileNotFoundError: the file is missing.
            ImportError: a package of the extra `text` is missing.
            ValueError: the file is not a SentencePiece model, or its special pieces
                have other indices; the message names the file.
        """
        proto = Path(path).read_bytes()
        _check_proto(proto, str(path))
        return cls(proto)


def check_texts(name: str, texts: Any) -> list[str]:
    """Returns texts as a list; raises a ValueError unless they are several strings."""
    if isinstance(texts, (str, bytes)):
        raise ValueError(
            f"`{name}` must be several texts, not one. Received: {name}={texts!r}"
        )
    sentences = list(texts)
    for i, text in enumerate(sentences):
        if not isinstance(text, str):
            raise ValueError(
                f"`{name}` must be strings. Received: {name}[{i}]={text!r}"
            )
    return sentences


def _check_proto(proto: Any, what: str) -> None:
    """Raises a ValueError unless the bytes are a model with the right indices."""
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
    """Converts SentencePiece's error about an invalid size to a clear message."""
    most = re.search(r"too high .*<= (\d+)", message)
    least = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if most:
        return f"they give {most[1]} pieces at most"
    if least:
        return f"their characters alone need {least[1]}"
    return message
