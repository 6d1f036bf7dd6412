"""Reads the captions and the splits of Flickr8k."""

import csv
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_attention.datasets import files
from keras_attention.datasets.choices import check_choice
from keras_attention.datasets.flickr8k.images import Captioned, pair, some

SPLITS = ("train", "dev", "test")
_TOKENS, _TABLE = "Flickr8k.token.txt", "captions.txt"
_HEADER = "image,caption"
_LINE = re.compile(r"([^\t#]+)#(\d{1,9})\t\s*(\S.*)")


def load(
    folder: str | os.PathLike[str] | None = None,
    split: str | None = None,
    images: Any = None,
    allow_missing: bool = False,
) -> Captioned:
    """Loads the captions of Flickr8k, and pairs them with images or with features.

    Args:
        folder: The folder with the files. Defaults to `flickr8k` in the folder named by
            the environment variable `KERAS_ATTENTION_DATA`, or in the current folder if
            the variable is not set.
        split: `"train"`, `"dev"` or `"test"`, or `None` for all images with captions.
        images: What to pair the captions with: `None`, or an argument of `pair`, such
            as the folder of the images or the path of an NPZ file of features.
        allow_missing: Same as for `pair`.

    Returns:
        `Captioned`, in the order of the split or of the captions.

    Raises:
        ValueError: Unknown `split`, or `images` is neither a path nor a mapping.
        DataNotFoundError: A file is missing, or, unless `allow_missing` is set, an
            image is missing; the message lists them.
        DamagedDataError: A line is malformed, or an image of the split has no captions.
            The message gives the file and the line.

    Example:
        ```python
        train = load("flickr8k", "train", images="flickr8k/Flicker8k_Dataset")
        train.images[0], train.captions[0]
        ```
    """
    rule = f"None or one of {', '.join(SPLITS)}"
    check_choice("split", split, (None, *SPLITS), rule)
    if folder is None:
        folder = Path(os.environ.get(files.DATA_VARIABLE) or ".") / "flickr8k"
    folder = Path(folder)
    path = next((p for p in (folder / _TOKENS, folder / _TABLE) if p.is_file()), None)
    if path is None:
        raise files.DataNotFoundError(
            f"The folder {folder} has neither {_TOKENS} nor {_TABLE}. Flickr8k may not "
            "be redistributed: ask for it at "
            "http://hockenmaier.cs.illinois.edu/8k-pictures.html, unpack it, and pass "
            f"`folder`, or put it into flickr8k in a folder named by the environment "
            f"variable {files.DATA_VARIABLE}."
        )
    captions = read_captions(path)
    if split is not None:
        listed = folder / f"Flickr_8k.{split}Images.txt"
        if path.name == _TABLE and not listed.is_file():
            raise files.DataNotFoundError(
                f"There is no file {listed}: {_TABLE} has no splits; use split=None."
            )
        names = read_split(listed)
        _check_known(names, captions, listed, path)
        captions = {name: captions[name] for name in names}
    if images is None:
        return Captioned(tuple(captions), tuple(captions.values()))
    return pair(captions, images, allow_missing)


def read_captions(path: str | os.PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Reads the captions of images, in the order of the file.

    Args:
        path: A file like `Flickr8k.token.txt`, or a CSV file with the header
            `image,caption`, like `captions.txt`; both in UTF-8.

    Returns:
        A dict from the name of each image to its captions.

    Raises:
        DataNotFoundError: No such file.
        DamagedDataError: The file is not UTF-8, has no captions, or a line is
            malformed or occurs twice. The message gives the file and the line.
    """
    lines = _lines(path)
    is_table = lines[0].strip() == _HEADER
    read = _read_row if is_table else _read_line
    by_image: dict[str, list[str]] = {}
    numbers: set[tuple[str, str]] = set()
    for place, line in enumerate(lines[is_table:], 1 + is_table):
        if not line.strip():
            continue
        parts = read(line)
        if parts is None:
            rule = "an image and a caption" if is_table else "name#number<TAB>caption"
            if place == 1 and "\t" not in line:
                rule = f"the header {_HEADER} of a CSV file, or {rule}"
            raise _malformed(path, place, f"must be {rule}", line)
        name, number, caption = parts
        if number and (name, number) in numbers:
            raise _malformed(path, place, "has a caption that was there before", line)
        numbers.add((name, number))
        by_image.setdefault(name, []).append(caption)
    if not by_image:
        raise files.DamagedDataError(f"{path} has no captions.")
    return {name: tuple(captions) for name, captions in by_image.items()}


def read_split(path: str | os.PathLike[str]) -> list[str]:
    """Reads a list of image names, one per line.

    Raises:
        DataNotFoundError: No such file.
        DamagedDataError: The file is not UTF-8 or has no names, or a name occurs twice.
            The message gives the file and the line.
    """
    names: dict[str, int] = {}
    for place, line in enumerate(_lines(path), 1):
        name = line.strip()
        if name in names:
            raise _malformed(path, place, f"repeats line {names[name]}", line)
        if name:
            names[name] = place
    if not names:
        raise files.DamagedDataError(f"{path} has no names.")
    return list(names)


def _lines(path: str | os.PathLike[str]) -> list[str]:
    return [line.removesuffix("\r") for line in files.read_text(path).split("\n")]


def _read_line(line: str) -> tuple[str, str, str] | None:
    """Reads name, number and caption of a line such as "a.jpg#0<TAB>A dog ."."""
    match = _LINE.fullmatch(line.rstrip())
    return None if match is None else (match[1], match[2], match[3])


def _read_row(line: str) -> tuple[str, str, str] | None:
    """Reads name and caption of a line of a CSV file."""
    try:
        (row,) = csv.reader([line], strict=True)
    except csv.Error:
        return None
    fields = [field.strip() for field in row]
    return (fields[0], "", fields[1]) if len(fields) == 2 and all(fields) else None


def _malformed(
    path: str | os.PathLike[str], place: int, rule: str, line: str
) -> files.DamagedDataError:
    return files.DamagedDataError(
        f"{path}, line {place} {rule}. Received: {line[:80]!r}"
    )


def _check_known(
    names: Sequence[str], captions: Mapping[str, Any], listed: Path, path: Path
) -> None:
    unknown = [name for name in names if name not in captions]
    if unknown:
        raise files.DamagedDataError(
            f"{listed} has images without captions in {path}: {some(unknown)}."
        )
