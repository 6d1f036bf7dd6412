"""A fact, and the text of the files that hold facts."""

import gzip
import os
import zlib
from pathlib import Path
from typing import NamedTuple

from keras_attention.datasets import files


class Fact(NamedTuple):
    """A triple of subject, relation and object, as in the file.

    Attributes:
        subject: The subject entity.
        relation: The relation between subject and object.
        object: The other entity.
    """

    subject: str
    relation: str
    object: str


def read_text(path: str | os.PathLike[str]) -> str:
    """Returns the text of a plain or gzipped UTF-8 file.

    Raises:
        ValueError: The file is not UTF-8; the message gives the line.
        DataNotFoundError: No such file.
        DamagedDataError: A gzipped file is truncated or altered.
    """
    path = Path(path)
    if not path.is_file():
        raise files.DataNotFoundError(f"There is no file {path}.")
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise files.DamagedDataError(
                f"{path} is truncated or altered ({error}). Get it again."
            ) from error
    return files.decode_text(content, path)
