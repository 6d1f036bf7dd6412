"""Reads sentence pairs from Multi30k, Tatoeba, and files in their formats."""

import codecs
import gzip
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from keras_attention.datasets import files
from keras_attention.datasets.choices import check_choice

_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
_STEMS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
# Maps each file to the SHA-256 and the size of its decompressed text.
_MULTI30K_FILES = {
    "train.en.gz": (
        "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
        1_801_238,
    ),
    "train.de.gz": (
        "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
        2_110_398,
    ),
    "val.en.gz": (
        "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
        63_297,
    ),
    "val.de.gz": (
        "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
        75_981,
    ),
    "test_2016_flickr.en.gz": (
        "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
        62_076,
    ),
    "test_2016_flickr.de.gz": (
        "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
        70_649,
    ),
}
# The file of 2020-11-22. The URL serves newer files under the same name.
_TATOEBA = files.Source(
    "http://www.manythings.org/anki/nld-eng.zip",
    sha256="58102e8188bf5520d2d2491150bbee58bc4c528e635f224a135299b919849eee",
    size=1_907_017,
)
_TATOEBA_SHARES = {
    "train": range(2, 20),
    "valid": range(1, 2),
    "test": range(1),
    "all": range(20),
}
_LANGUAGES = {"multi30k": ("en", "de"), "tatoeba": ("en", "nl")}
_SPLITS = {"multi30k": tuple(_STEMS), "tatoeba": tuple(_TATOEBA_SHARES)}


class Pair(NamedTuple):
    """A sentence and its translation.

    Attributes:
        source: The sentence, without surrounding white space.
        target: Its translation.
        attribution: The authors to credit; `""` if the file names none.
    """

    source: str
    target: str
    attribution: str = ""


def load(
    name: str,
    split: str = "train",
    source: str = "en",
    target: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> list[Pair]:
    """Loads the pairs of Multi30k or of Tatoeba from their official files.

    `"multi30k"`: photo captions in English (`"en"`) and German (`"de"`), 29,000 for
    training, 1,014 for validation and 1,000 for testing (`test_2016_flickr`). Elliott
    et al., 2016, *Multi30K: Multilingual English-German Image Descriptions*,
    https://aclanthology.org/W16-3210. **For non-commercial research and education
    only**, like its source Flickr30k.

    `"tatoeba"`: 52,652 sentences in English and Dutch (`"nl"`), from
    https://tatoeba.org via https://www.manythings.org/anki. The license is Creative
    Commons Attribution 2.0 France: credit the authors in `Pair.attribution` if you
    redistribute them. The corpus has no official split. A checksum assigns about 90 %
    to `"train"` and 5 % each to `"valid"` and `"test"`. Pairs that share a sentence,
    directly or through other pairs, stay in one split, so no sentence occurs in two
    splits. `"all"` selects all pairs.

    Without a `path`, `load` searches for the files in the folder named by
    `KERAS_ATTENTION_DATA` (`multi30k/train.en.gz`, …; `tatoeba/nld-eng.zip`), then in
    Keras' cache, and otherwise downloads them. The official Tatoeba URL always serves
    the newest file, but this loader expects the file of 2020-11-22. It rejects a newer
    download, but accepts a newer file from the folder or from `path`.

    Args:
        name: `"multi30k"` or `"tatoeba"`.
        split: `"train"`, `"valid"` or `"test"`. Tatoeba also has `"all"`.
        source: The language to translate from.
        target: The language to translate to. Defaults to the other language.
        path: A folder with the Multi30k files, or the Tatoeba file.

    Returns:
        A list of `Pair`, in the files' order.

    Raises:
        ValueError: The name, split or language is unknown, or `source` equals `target`.
        DataNotFoundError: A file cannot be found or downloaded; the message says what
            to try next.
        DamagedDataError: A file is truncated, altered, not UTF-8 or in another format,
            or the two files differ in length. The message gives the file and the line.

    Example:
        ```python
        train = load("multi30k", "train", source="en", target="de")
        ```
    """
    check_choice("name", name, _LANGUAGES)
    languages = _LANGUAGES[name]
    if split not in _SPLITS[name]:
        raise ValueError(
            f"`split` of {name} must be one of {', '.join(_SPLITS[name])}. "
            f"Received: split={split!r}"
        )
    if target is None:
        target = languages[source == languages[0]]
    if {source, target} != set(languages):
        raise ValueError(
            f"`source` and `target` of {name} must be {languages[0]!r} and "
            f"{languages[1]!r}, either way round. "
            f"Received: source={source!r}, target={target!r}"
        )
    if name == "multi30k":
        return read_files(*(_multi30k(split, lang, path) for lang in (source, target)))
    if path is None:
        path = files.find(
            "tatoeba/nld-eng.zip",
            _TATOEBA.url,
            _TATOEBA.sha256,
            size=_TATOEBA.size,
            cache_name="tatoeba-nld-eng.zip",
        )
    pairs = read_tabbed(path)
    shares = _TATOEBA_SHARES[split]
    firsts = [pairs[first].source.encode() for first in _groups(pairs)]
    pairs = [
        pair
        for pair, first in zip(pairs, firsts, strict=True)
        if zlib.crc32(first) % 20 in shares
    ]
    if source == languages[0]:
        return pairs
    return [Pair(pair.target, pair.source, pair.attribution) for pair in pairs]


def read_files(
    source: str | os.PathLike[str], target: str | os.PathLike[str]
) -> list[Pair]:
    """Reads two files with one translated line per source line.

    Args:
        source: A UTF-8 text file with one sentence per line, plain or `.gz`.
        target: A file in the same format with the same number of lines.

    Returns:
        A list with one `Pair` per line. An empty line gives an empty text.

    Raises:
        DataNotFoundError: The file is missing.
        DamagedDataError: A file is not UTF-8 or is a damaged `.gz`, or the files differ
            in length; the message gives the first line without a counterpart.

    Example:
        ```python
        pairs = read_files("train.en.gz", "train.de.gz")
        ```
    """
    sources, targets = _lines(source), _lines(target)
    if len(sources) != len(targets):
        shorter = min(len(sources), len(targets))
        longer = source if len(sources) > shorter else target
        raise files.DamagedDataError(
            f"{source} and {target} must have equally many lines: line "
            f"{shorter + 1} of {longer} has no counterpart. "
            f"Received: {len(sources)} and {len(targets)} lines"
        )
    return [Pair(*texts) for texts in zip(sources, targets, strict=True)]


def read_tabbed(path: str | os.PathLike[str]) -> list[Pair]:
    """Reads a file with one pair per line and an optional attribution.

    Tabs separate the columns: source, target and an optional attribution, as in the
    files of https://www.manythings.org/anki.

    Args:
        path: A UTF-8 text file, plain, `.gz` or `.zip`. A `.zip` must contain exactly
            one `.txt` without a leading underscore in its name.

    Returns:
        A list with one `Pair` per line.

    Raises:
        DataNotFoundError: The file is missing.
        DamagedDataError: The file is not UTF-8 or is a damaged `.gz` or `.zip`, or a
            line does not have two or three columns; the message gives the line.

    Example:
        ```python
        pairs = read_tabbed("nld-eng.zip")
        ```
    """
    pairs = []
    for number, line in enumerate(_lines(path), 1):
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) not in (2, 3) or not all(columns[:2]):
            raise files.DamagedDataError(
                f"{path}, line {number}: must be a text, a tab, its translation and, "
                f"if need be, a tab and the attribution. Received: {line!r}"
            )
        pairs.append(Pair(*columns))
    return pairs


def _multi30k(split: str, language: str, path: str | os.PathLike[str] | None) -> Path:
    name = f"{_STEMS[split]}.{language}.gz"
    if path is not None:
        return Path(path) / name
    sha256, size = _MULTI30K_FILES[name]
    return files.find(
        f"multi30k/{name}",
        _MULTI30K + name,
        sha256,
        size=size,
        unpacked=True,
        cache_name=f"multi30k-{name}",
    )


def _groups(pairs: Sequence[Pair]) -> list[int]:
    """Returns for each pair the first pair linked to it by shared sentences."""
    above = list(range(len(pairs)))

    def top(i: int) -> int:
        while above[i] != i:
            above[i] = above[above[i]]
            i = above[i]
        return i

    holders: dict[tuple[int, str], int] = {}  # first pair by side and sentence
    for i, pair in enumerate(pairs):
        for sentence in enumerate(pair[:2]):
            first, second = sorted((top(i), top(holders.setdefault(sentence, i))))
            above[second] = first
    return [top(i) for i in range(len(pairs))]


def _lines(path: str | os.PathLike[str]) -> list[str]:
    """Returns the decoded lines of a text without surrounding white space."""
    content = _content(Path(path)).removeprefix(codecs.BOM_UTF8)
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            texts.append(line.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            raise files.DamagedDataError(
                f"{path}, line {number}: is not UTF-8 text ({error}). "
                "Convert the file to UTF-8, or download it again."
            ) from error
    return texts


# A RuntimeError covers unknown methods of compression and passwords.
_DAMAGES = (*files.DAMAGES, zipfile.BadZipFile, lzma.LZMAError, RuntimeError)


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise files.DataNotFoundError(
            f"There is no file {path}. Next: check the path, or leave `path` out of "
            "`load`, which then looks for the official file and downloads it."
        )
    with open(path, "rb") as file:
        beginning = file.read(2)
    try:
        if beginning == b"PK":
            content = _unzipped(path)
        elif beginning == b"\x1f\x8b":
            with gzip.open(path, "rb") as stream:
                content = stream.read(files.ARCHIVE_LIMIT + 1)
        else:
            return path.read_bytes()
    except files.DamagedDataError:
        raise
    except _DAMAGES as error:
        raise files.DamagedDataError(
            f"{path} is damaged ({error}). Delete it and download it again."
        ) from error
    if len(content) > files.ARCHIVE_LIMIT:
        raise files.UnsafeArchiveError(
            f"{path} is refused: decompressed, it has more than "
            f"{files.ARCHIVE_LIMIT} bytes."
        )
    return content


def _unzipped(path: Path) -> bytes:
    """Reads the archive's only text into memory, without writing to disk."""
    # A damaged archive seeks before the start; this is an OSError only in a file.
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        names = [
            name
            for name in archive.namelist()
            if name.endswith(".txt") and not name.rpartition("/")[2].startswith("_")
        ]
        if len(names) != 1:
            raise files.DamagedDataError(
                f"{path} must have one `.txt` in it whose name does not begin with "
                f"an underscore. Received: {archive.namelist()}"
            )
        with archive.open(names[0]) as stream:
            return stream.read(files.ARCHIVE_LIMIT + 1)
