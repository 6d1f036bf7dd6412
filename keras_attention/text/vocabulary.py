"""Vocabularies of words or characters for input and output sequences.

```python
from keras_attention.text import Vocabulary

vocabulary = Vocabulary.from_sentences(["A dog runs.", "A cat."])
vocabulary.encode("A dog.")              # [5, 7, 4]
vocabulary.decode([5, 7, 4, 3])          # "a dog ."
```
"""

import collections
import os
import re
import unicodedata
from collections.abc import Iterable, MutableMapping
from pathlib import Path

from keras_attention.text.encoding import decode_text

PADDING, UNKNOWN, START, END = range(4)
SPECIAL_TOKENS = ("<pad>", "<unk>", "<start>", "<end>")  # by index

_LEVELS = ("word", "character")
_WORD = re.compile(r"\w+(?:[-'’]\w+|(?<=\d)[.,]\d+)*|[^\w\s]")
_HEADER = "keras_attention vocabulary: level={}, lowercase={}"
_HEADERS = {
    _HEADER.format(level, lowercase): (level, lowercase)
    for level in _LEVELS
    for lowercase in (True, False)
}


def tokenize(text: str, lowercase: bool = True) -> list[str]:
    """Splits a text into words and punctuation marks.

    The text is normalized to Unicode form NFC and, by default, lowercased. A word is a
    run of letters, digits and underscores. It may contain apostrophes, hyphens, and
    full stops or commas between two digits. Every other character except white space is
    a token by itself.

    Args:
        text: Any text.
        lowercase: Whether to lowercase the text.

    Returns:
        A list of strings.

    Raises:
        ValueError: `text` is not a string.

    Example:
        ```python
        tokenize("The dog's T-shirt, 1.5 m.")
        # ["the", "dog's", "t-shirt", ",", "1.5", "m", "."]
        ```
    """
    return _WORD.findall(_normalize(text, lowercase))


def written(indices: Iterable[int], size: int) -> list[int]:
    """Returns the indices up to the end token, without padding and start tokens.

    Raises:
        ValueError: An index below 0 or not below `size`.
    """
    tokens = []
    for index in map(int, indices):
        if not 0 <= index < size:
            raise ValueError(
                f"`indices` must be at least 0 and below {size}. Received: {index}"
            )
        if index == END:
            break
        if index not in (PADDING, START):
            tokens.append(index)
    return tokens


class SpecialTokens:
    """Mixin of vocabularies with the indices of their special tokens."""

    @property
    def start_token_id(self) -> int:
        """The index that begins a target sequence: 2."""
        return START

    @property
    def end_token_id(self) -> int:
        """The index that ends a sequence: 3."""
        return END


class Vocabulary(SpecialTokens):
    """Tokens and their indices; a token is a word or a character.

    Index 0 is padding, 1 the unknown token, 2 the start and 3 the end of a sequence.
    `encode` does not add the start and the end; the `vectorize` functions add them.

    Args:
        tokens: The regular tokens, in the order of their indices, which begin at 4.
        level: `"word"` splits a text with `tokenize`. `"character"` makes each
            character a token, including white space.
        lowercase: Whether to lowercase a text before splitting.

    Raises:
        ValueError: `level` is unknown, or a token is a duplicate, one of
            `SPECIAL_TOKENS`, or not a single word (single character).

    Example:
        ```python
        vocabulary = Vocabulary(["dog", "cat", "a"])
        vocabulary.encode("A mad dog")  # [6, 1, 4]
        vocabulary.decode([2, 6, 1, 4, 3, 0])  # "a <unk> dog"
        ```
    """

    def __init__(
        self, tokens: Iterable[str], level: str = "word", lowercase: bool = True
    ) -> None:
        if level not in _LEVELS:
            raise ValueError(
                f"`level` must be 'word' or 'character'. Received: level={level!r}"
            )
        self.level = level
        self.lowercase = bool(lowercase)
        self._tokens = (*SPECIAL_TOKENS, *tokens)
        self._index: MutableMapping[str, int] = {}
        for index, token in enumerate(self._tokens):
            proper = index < len(SPECIAL_TOKENS) or _is_one(token, level)
            if not proper or token in self._index:
                raise ValueError(
                    f"`tokens` must be distinct, each one {level}, and none of "
                    f"{', '.join(SPECIAL_TOKENS)}. Received: "
                    f"tokens[{index - len(SPECIAL_TOKENS)}]={token!r}"
                )
            self._index[token] = index

    @classmethod
    def from_sentences(
        cls,
        sentences: Iterable[str],
        max_size: int | None = None,
        min_count: int = 1,
        level: str = "word",
        lowercase: bool = True,
    ) -> "Vocabulary":
        """Builds a vocabulary from sentences, most frequent tokens first.

        Tokens with equal counts are sorted by their characters, so the vocabulary does
        not depend on the order of the sentences.

        Args:
            sentences: Texts, for example one side of the training pairs.
            max_size: Maximum `len` of the vocabulary, including the four special
                tokens. Unlimited by default.
            min_count: Minimum number of occurrences of a token.
            level: Same as for the class.
            lowercase: Same as for the class.

        Returns:
            A `Vocabulary`.

        Raises:
            ValueError: `max_size` is below 5, `min_count` is below 1, `level` is
                unknown, or `sentences` is a single string.
        """
        if isinstance(sentences, str):
            raise ValueError(
                "`sentences` must be several texts, not one. "
                f"Received: sentences={sentences!r}"
            )
        smallest = len(SPECIAL_TOKENS) + 1
        if max_size is not None and (
            not isinstance(max_size, int) or max_size < smallest
        ):
            raise ValueError(
                f"`max_size` must be None or a whole number of at least {smallest}. "
                f"Received: max_size={max_size!r}"
            )
        if not isinstance(min_count, int) or min_count < 1:
            raise ValueError(
                "`min_count` must be a whole number of at least 1. "
                f"Received: min_count={min_count!r}"
            )
        split = cls((), level, lowercase)._split
        counts = collections.Counter(
            token for sentence in sentences for token in split(sentence)
        )
        ranked = sorted(counts, key=lambda token: (-counts[token], token))
        frequent = [token for token in ranked if counts[token] >= min_count]
        if max_size is not None:
            frequent = frequent[: max_size - len(SPECIAL_TOKENS)]
        return cls(frequent, level, lowercase)

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens by index, including the special ones."""
        return self._tokens

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str) and self._index.get(token, 0) > END

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self)} {self.level}s>"

    def index(self, token: str) -> int:
        """Returns the index of one token, which is not changed; 1 if it is unknown."""
        return self._index[token] if token in self else UNKNOWN

    def encode(self, text: str) -> list[int]:
        """Returns the index of each token of a text; 1 for unknown tokens.

        Raises:
            ValueError: `text` is not a string.
        """
        return [self._index.get(token, UNKNOWN) for token in self._split(text)]

    def decode(self, indices: Iterable[int]) -> str:
        """Converts indices to text, up to the end token if there is one.

        Padding and start tokens are left out. Words are joined by spaces, so
        `decode(encode(text))` is the lowercase text with spaces around its marks.

        Args:
            indices: Integers, as a list or an array of shape (T,).

        Raises:
            ValueError: An index below 0 or not below `len(self)`.
        """
        tokens = [self._tokens[index] for index in written(indices, len(self))]
        return (" " if self.level == "word" else "").join(tokens)

    def extended(self, source: Iterable[str], extra_ids: int = 16) -> "Vocabulary":
        """Returns a vocabulary with the unknown tokens of a source, to copy them.

        They get the indices `len(self)`, `len(self) + 1`, … in order of their first
        appearance. The result encodes the source and its target, and decodes what a
        `Seq2Seq(copy=…)` writes for this source.

        Args:
            source: A text, or its tokens.
            extra_ids: The maximum number of added tokens, which is the model's
                `extra_ids`. Further tokens stay unknown.

        Example:
            ```python
            vocabulary = Vocabulary(["on", "meet", "monday"])
            extended = vocabulary.extended("Meet Okonkwo on Monday")
            extended.encode("Monday Okonkwo")  # [6, 7]
            extended.decode([6, 7, 3])  # "monday okonkwo"
            ```
        """
        if isinstance(extra_ids, bool) or extra_ids < 0:
            raise ValueError(
                "`extra_ids` must be a whole number of at least 0, such as the "
                f"model's `extra_ids`. Received: extra_ids={extra_ids}"
            )
        tokens = self._split(source) if isinstance(source, str) else source
        unknown = (token for token in tokens if token not in self._index)
        new = [*dict.fromkeys(unknown)][:extra_ids]
        extended = Vocabulary((), self.level, self.lowercase)
        extended._tokens = (*self._tokens, *new)
        added = {token: len(self) + n for n, token in enumerate(new)}
        # Not a copy of the index, because each source has its own vocabulary.
        extended._index = collections.ChainMap(added, self._index)
        return extended

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a header and then one token per line, in UTF-8.

        Line n, counted from 1, is token n - 2.
        """
        lines = (_HEADER.format(self.level, self.lowercase), *self._tokens)
        text = "".join(f"{line}\n" for line in lines)
        Path(path).write_text(text, encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Vocabulary":
        """Reads a file written by `save`.

        Raises:
            FileNotFoundError: The file is missing.
            ValueError: The file is not UTF-8, does not begin with the header and the
                special tokens, ends inside a line, or has a later line that is not a
                single new token. The message gives the file and the line.
        """
        lines = decode_text(Path(path).read_bytes(), path).split("\n")

        def check(is_right: bool, number: int, rule: str) -> None:
            if not is_right:
                line = lines[number - 1] if number <= len(lines) else ""
                raise ValueError(
                    f"{path} is not a saved vocabulary: line {number} {rule}. "
                    f"Received: {line!r}"
                )

        check(lines[0] in _HEADERS, 1, "must be the heading that `save` writes")
        for number, token in enumerate(SPECIAL_TOKENS, 2):
            check([token] == lines[number - 1 : number], number, f"must be {token!r}")
        check(not lines[-1], len(lines), "must end in a line break")
        level, lowercase = _HEADERS[lines[0]]
        seen, tokens = set(SPECIAL_TOKENS), lines[1 + len(SPECIAL_TOKENS) : -1]
        for number, token in enumerate(tokens, 2 + len(SPECIAL_TOKENS)):
            is_new = token not in seen and _is_one(token, level)
            check(is_new, number, f"must be one {level}, and a new one")
            seen.add(token)
        return cls(tokens, level, lowercase)

    def _split(self, text: str) -> list[str]:
        if self.level == "word":
            return tokenize(text, self.lowercase)
        return list(_normalize(text, self.lowercase))

    def _key(self) -> tuple[tuple[str, ...], str, bool]:
        return self._tokens, self.level, self.lowercase


def _normalize(text: str, lowercase: bool) -> str:
    if not isinstance(text, str):
        raise ValueError(f"`text` must be a string. Received: text={text!r}")
    text = unicodedata.normalize("NFC", text)
    return text.lower() if lowercase else text


def _is_one(token: object, level: str) -> bool:
    if not isinstance(token, str):
        return False
    if level == "word":
        return token.split() == [token]
    return len(token) == 1 and token not in "\r\n"
